"""The command as a process of its own: start-up, closed pipes, full disks, Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "looprop"]
# Runs the command and stops it from inside, at a place where it is at work.
INTERRUPTED = """
import os, signal, sys
from looprop.cli import main
from looprop.methods.loo import LeaveOneOut
LeaveOneOut.attribute = lambda self, subjects: os.kill(os.getpid(), signal.SIGINT)
sys.argv = ["looprop", *sys.argv[1:]]
main.main()
"""


# Runs the command and then says which of the slow libraries it imported.
IMPORTS = """
import sys
from looprop.cli import main
sys.argv = ["looprop", *sys.argv[1:]]
try:
    main.main()
finally:
    slow = {"torch", "transformers", "scipy", "matplotlib", "pyarrow", "pandas", "datasets", "numpy"}
    print("imported:", *sorted(slow & set(sys.modules)), file=sys.stderr)
"""


# Says how threads will wait, and whether that was settled before torch could read it.
WAITING = """
import os, sys
from looprop.cli import main
print(os.environ["OMP_WAIT_POLICY"], "torch" in sys.modules)
"""


@pytest.mark.parametrize(("given", "wanted"), [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
def test_waiting_threads_do_not_spin_unless_told_to(given: str | None, wanted: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    environment |= {} if given is None else {"OMP_WAIT_POLICY": given}
    command = [sys.executable, "-c", WAITING]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.split() == [wanted, "False"]


@pytest.mark.parametrize("arguments", [["--help"], ["explain", "--help"]], ids=" ".join)
def test_start_up_does_not_wait_for_slow_libraries(arguments: list[str]) -> None:
    run = subprocess.run([sys.executable, "-c", IMPORTS, *arguments], capture_output=True, text=True, check=False)
    assert run.stderr.split() == ["imported:"]


# Explains, then says what was imported that an explanation does not need, and what became of the garbage collector.
EXPLAINED = """
import gc, sys
from looprop.cli import main
sys.argv = ["looprop", "explain", "a good film"]
try:
    main.main()
finally:
    print(*sorted({"scipy.stats", "matplotlib", "pyarrow", "ray"} & set(sys.modules)), file=sys.stderr)
    print(gc.isenabled(), gc.get_freeze_count() > 100_000, file=sys.stderr)
"""


def test_an_explanation_imports_what_it_needs_and_looks_for_no_garbage_among_it() -> None:
    run = subprocess.run([sys.executable, "-c", EXPLAINED], capture_output=True, text=True, check=False)
    assert run.stderr.splitlines() == ["", "True True"]


def test_a_closed_pipe_is_no_error() -> None:
    run = subprocess.Popen([*COMMAND, "methods"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert run.stdout is not None
    assert run.stderr is not None
    run.stdout.close()
    said = run.stderr.read()
    run.stderr.close()
    assert (run.wait(), said) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_full_disk_is_one_line() -> None:
    with open("/dev/full", "wb") as full:
        run = subprocess.run([*COMMAND, "methods"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert run.returncode == 1
    assert run.stderr == "looprop: No space left on device\n"


def test_closed_standard_output() -> None:
    run = subprocess.run(f"{sys.executable} -m looprop methods >&-", shell=True, capture_output=True, check=False)
    assert (run.returncode, run.stderr) == (0, b"")


def test_a_terminal_without_unicode() -> None:
    run = subprocess.run(
        [*COMMAND, "methods"], env={**os.environ, "PYTHONIOENCODING": "ascii"}, capture_output=True, check=False
    )
    assert (run.returncode, run.stderr) == (0, b"")


@pytest.mark.slow
def test_json_alone_on_standard_output(classifier: str) -> None:
    run = subprocess.run(
        [*COMMAND, "explain", "good fun", "--model", classifier, "--json"], capture_output=True, check=True
    )
    assert json.loads(run.stdout)["text"] == "good fun"
    assert run.stderr == b""


def takes_ctrl_c() -> None:
    """Jobs that a shell started in the background are born deaf to Ctrl-C, and so are their children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.slow
def test_ctrl_c_in_the_middle_of_a_run(classifier: str, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("as it was", encoding="utf-8")
    arguments = ["explain", "good fun", "--model", classifier, "-m", "cp-lrp", "-m", "loo", "--html", str(page)]
    run = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, *arguments],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=takes_ctrl_c,
    )
    assert (run.returncode, run.stdout) == (130, "")
    # A progress bar may stand before it: after two seconds there is one.
    assert run.stderr.splitlines()[-1].endswith("looprop: interrupted")
    assert "Traceback" not in run.stderr
    assert [(path.name, path.read_text(encoding="utf-8")) for path in tmp_path.iterdir()] == [
        ("page.html", "as it was")
    ]


def test_ctrl_c_while_it_starts() -> None:
    run = subprocess.Popen(
        [*COMMAND, "explain", "good"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=takes_ctrl_c,
    )
    time.sleep(0.6)
    run.send_signal(signal.SIGINT)
    out, said = run.communicate(timeout=60)
    # Stopped while Python itself was starting, it ends by the signal.
    assert run.returncode in (130, -signal.SIGINT)
    assert out == ""
    assert "Traceback" not in said or run.returncode == -signal.SIGINT
