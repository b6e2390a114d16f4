"""The pairs one after the other, in several processes."""

import multiprocessing
import time
import warnings
from collections.abc import Iterator

import torch
import transformers

from benchmarks.census.cells import examine
from benchmarks.census.table import Record


def run(pairs: list[tuple[str, str, str]], length: int, processes: int) -> Iterator[Record]:
    """The records, in order."""
    given = [(*pair, length) for pair in pairs]
    if processes == 1 or len(pairs) == 1:
        quiet()
        yield from map(timed, given)
        return
    with multiprocessing.get_context("spawn").Pool(processes, initializer=quiet) as pool:
        yield from pool.imap(timed, given)


def timed(pair: tuple[str, str, str, int]) -> Record:
    """One record with the seconds that it took."""
    start = time.perf_counter()
    return {**examine(*pair), "seconds": round(time.perf_counter() - start, 1)}


def quiet() -> None:
    """One thread, and none of the transformers library's own words."""
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    warnings.simplefilter("ignore")
