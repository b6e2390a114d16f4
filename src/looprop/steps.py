"""Long work a few at a time, so that one can see how far it is and stop with what is done."""

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

SHORT = 0.5
"""Seconds: after a step that took less, the next one is twice as large."""

Progress = bool | Callable[[int, int], None]


class InterruptedWarning(UserWarning):
    """Work was stopped, and its result holds what was done before."""


@dataclass(frozen=True)
class Steps:
    """How long work is watched; false where nobody watches it.

    progress: True shows a bar; a function is called after each step: `progress(done, total)`. stop: asked after each
    step; True ends the work, as Ctrl-C does.
    """

    progress: Progress = False
    stop: Callable[[], bool] | None = None

    def __bool__(self) -> bool:
        return self.progress is not False or self.stop is not None

    def run(
        self,
        work: Callable[[int, int], object],
        total: int,
        title: str,
        *,
        clock: Callable[[], float] = time.perf_counter,
    ) -> bool:
        """Call `work(start, end)` on one part after the other; return whether all was done."""
        from looprop.progress import progress_bar  # which needs rich

        done, count = 0, 1
        bar = progress_bar(title, total) if self.progress is True else nullcontext(None)
        try:
            with bar as advance:
                while done < total:
                    start, end = clock(), min(done + count, total)
                    work(done, end)
                    if advance is not None:
                        advance(count=end - done)
                    elif callable(self.progress):
                        self.progress(end, total)
                    done = end
                    if done < total and self.stop is not None and self.stop():
                        break
                    count = 2 * count if clock() - start < SHORT else count
        except KeyboardInterrupt:
            pass
        return done == total
