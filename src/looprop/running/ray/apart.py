"""The driver of a cluster in a process of its own: when a node dies, Ray ends the process that is connected to it, from
one moment to the next and without a word. Here that is not the process of whoever asked, which can say what happened.
"""

import _thread
import contextlib
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from looprop.errors import ClusterError

LONGEST_END = 10.0
"""Seconds after which a driver that does not end is killed, with all processes that it has started."""


def apart(drive: Callable[..., Iterator[Any]], *given: Any) -> Iterator[Any]:
    """What `drive(*given)` yields in another process, which ends when this one does, however it ends."""
    from ray import cloudpickle

    # It imports what this process can import, and so do the workers of a cluster that it starts.
    known = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    command = [sys.executable, "-c", f"from {__name__} import main; main()"]
    with (
        tempfile.TemporaryFile() as noise,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=noise, env=known, start_new_session=True
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(cloudpickle.dumps((sys.argv, drive, given)))
            process.stdin.flush()
            while (message := pickle.load(process.stdout)) is not None:
                if isinstance(message, BaseException):
                    raise message
                yield message
        except (EOFError, pickle.UnpicklingError, BrokenPipeError) as error:
            raise ClusterError(
                "the connection to the Ray cluster is gone: a node died (its raylet or agent was killed, or memory ran "
                "out), or the cluster was stopped. Give the same command again: a run with a folder goes on from what "
                "is done"
            ) from error
        finally:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(LONGEST_END)
            _kill_all(process.pid)


def main() -> None:
    """The other process: its order comes on standard input, which closes when nobody waits any more."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # where Ray prints
    sys.argv, drive, given = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_end_with_reader, daemon=True).start()
    from ray import cloudpickle

    last: BaseException | None = None
    try:
        for message in drive(*given):
            cloudpickle.dump(message, answers)
            answers.flush()
    except Exception as error:
        last = error
    try:
        content = cloudpickle.dumps(last)
    except Exception:  # not every error can be sent, its words can
        content = cloudpickle.dumps(ClusterError(f"{type(last).__name__}: {last}"))
    answers.write(content)
    answers.flush()


def _end_with_reader() -> None:
    sys.stdin.buffer.read()
    _thread.interrupt_main()
    time.sleep(LONGEST_END)
    _kill_all(os.getpid())


def _kill_all(group: int) -> None:
    """Kill a driver and what it started that has not ended with it."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
