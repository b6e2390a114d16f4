"""A process that has imported everything and explained nothing, and forks a child for each question of the truth.

The child makes the model anew, repeats its changes, loads the weights as they are now, and asks looprop once.
"""

import gc
import os
import pickle
import select
import signal
import struct
import subprocess
import sys
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

HANG = 60
LIMIT_OF_NOISE = 1e-4
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Said:
    """What came of a question. kind: value, refused, traceback or hang; trace: what an explanation left behind."""

    kind: str
    value: Any = None
    note: str = ""
    trace: str = ""


def said(ask: Any) -> Said:
    """What comes of asking, whatever happens."""
    from looprop.errors import LoopropError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Said("value", ask())
    except LoopropError as error:
        return Said("refused", note=f"{type(error).__name__}: {error}")
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.lineno}"
        ours = [f for f in traceback.extract_tb(error.__traceback__) if "looprop" in f.filename][-1:]
        inside = "".join(f", in looprop {Path(f.filename).name}:{f.lineno}" for f in ours)
        return Said("traceback", note=f"{type(error).__name__}: {error} ({where}{inside})")


def truth(request: Any) -> Said:
    """What a process says that has never met the model."""
    from attacks.changes.sequence import restored, started

    seed, done, state, question = request
    asker = started(seed)
    for step in done:
        step.change(asker.world)
    trace = restored(asker.world.module(question.on), state)
    answer = said(lambda: asker.ask(question))
    return Said(answer.kind, answer.value, answer.note, trace)


def _send(line: IO[bytes], thing: Any) -> None:
    data = pickle.dumps(thing)
    line.write(struct.pack("<q", len(data)) + data)
    line.flush()


def _receive(line: IO[bytes]) -> Any:
    head = line.read(8)
    if len(head) < 8:
        return None
    return pickle.loads(line.read(struct.unpack("<q", head)[0]))


def _serve() -> None:
    import torch

    from attacks.changes import sequence

    sequence.imported()
    torch.set_num_threads(1)  # a forked child has none of its parent's other threads and would wait for them
    gc.collect()
    gc.freeze()
    back = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while (request := _receive(sys.stdin.buffer)) is not None:
        child = os.fork()
        if child == 0:
            gc.disable()
            signal.alarm(HANG)
            try:
                _send(back, truth(request))
            except BaseException as error:
                _send(back, Said("broken", note=f"{type(error).__name__}: {error}\n{traceback.format_exc()}"))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            _send(back, Said("hang" if os.WTERMSIG(status) == signal.SIGALRM else "broken", note=f"signal {status}"))


class Zygote:
    """The other end: asks for the truth."""

    def __init__(self) -> None:
        known = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *(path for path in sys.path if path)])}
        command, pipe = [sys.executable, "-m", "attacks.changes.zygote"], subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=known, cwd=ROOT)

    def truth(self, request: Any) -> Said:
        """What a process says that has never met the model."""
        assert self.process.stdin
        assert self.process.stdout
        _send(self.process.stdin, request)
        ready, _, _ = select.select([self.process.stdout], [], [], 4 * HANG)
        found = _receive(self.process.stdout) if ready else None
        if found is None or found.kind == "broken":
            raise AssertionError(f"the campaign itself is wrong: {found.note if found else 'no truth'}")
        assert isinstance(found, Said)
        return found

    def end(self) -> None:
        """End the process."""
        for line in (self.process.stdin, self.process.stdout):
            assert line
            line.close()
        self.process.wait(HANG)


if __name__ == "__main__":
    # Under its own name, so that what is pickled here is known there.
    from attacks.changes import zygote

    zygote._serve()
