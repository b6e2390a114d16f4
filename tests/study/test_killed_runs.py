"""A run may be killed at any moment: what was written stays, and the same command goes on."""

import subprocess
import sys
from pathlib import Path

import pytest

from evaluation.tiny import TEXTS

KILLER = """
import os, random, signal, sys, time
import torch
from pathlib import Path
from looprop.study import reproducing
model, data, spec, out = sys.argv[1:]
torch.set_num_threads(1)
def go(folder):
    return reproducing.reproduce(spec, model=model, data=data, out=folder, progress=False, part_examples=1)
compute = reproducing.run_missing
def timed(*arguments, **options):
    # What else the machine does must not decide when children die, nor how long loading takes.
    start = time.process_time()
    compute(*arguments, **options)
    took.append(time.process_time() - start)
reproducing.run_missing, took = timed, []
whole, _ = go(out + "/whole"), go(out + "/warm")  # a first run also imports
usual = took[-1]
kept = []
for seed in range(10):
    child = os.fork()
    if child == 0:
        rng = random.Random(seed)
        if seed % 2:  # at a seeded time
            signal.signal(signal.SIGPROF, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
            def doomed(*arguments, **options):
                signal.setitimer(signal.ITIMER_PROF, rng.uniform(0.01, 0.1) * usual)
                compute(*arguments, **options)
            reproducing.run_missing = doomed
        else:  # in the middle of writing: at a seeded call of fsync or rename
            name, count = rng.choice(["fsync", "replace"]), rng.randint(1, 5)
            owner = os if name == "fsync" else Path
            real, calls = getattr(owner, name), []
            def counted(*arguments):
                calls.append(1)
                if len(calls) == count:
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(*arguments)
            setattr(owner, name, counted)
        go(out + "/killed")
        os._exit(0)
    _, status = os.waitpid(child, 0)
    kept.append(os.WIFSIGNALED(status))
again = go(out + "/killed")
plain = lambda run: repr([{**row, "seconds": 0} for row in run.rows])
print(sum(kept), len(again.manifest["sessions"]), plain(again) == plain(whole), again.finished)
"""


@pytest.mark.slow
def test_a_run_killed_at_ten_moments_equals_an_uninterrupted_one(model_folder: Path, tmp_path: Path) -> None:
    many = tmp_path / "many.txt"
    many.write_text("\n".join(f"{a} and {b}" for a in TEXTS for b in TEXTS[:5]), encoding="utf-8")
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        "{name: x, kind: texts, question: 'killed?', data: {sst2: {}}, methods: [loo, attnlrp, cp-lrp]}",
        encoding="utf-8",
    )
    command = [sys.executable, "-c", KILLER, str(model_folder), str(many), str(spec), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    killed, sessions, same, finished = done.stdout.split()
    assert int(killed) == 10, "every child was killed before it could finish"
    assert int(sessions) >= 8, "nearly every one got as far as writing the manifest"
    assert (same, finished) == ("True", "True")
