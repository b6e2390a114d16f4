"""What it costs that removal checks itself: leave-one-out with its checks and without, taking turns.

Checked are the path of operations on every intact input, the intact input in the batch of variants, and the sentinels
(docs/what-is-checked.md). Each turn explains as many texts as pass between two checks of short inputs, each with its
intact forward pass. The embedded sentiment model, and a random BERT of four layers of the base size.

    python -m benchmarks.check_cost --repeats 7
    python -m benchmarks.check_cost --quick            # tiny: does it run?
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # waiting threads would count as CPU time

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
import transformers

from benchmarks.common import RESULTS, machine, take_turns, write_json
from benchmarks.set_function import subject_of
from looprop.models.adapter import Adapter
from looprop.models.heads.text_classifier import TextClassifier
from looprop.removal.trust import EVERY, FEW_VARIANTS
from looprop.removal.value import SetFunction
from looprop.workbench import load

# By how much checks may make leave-one-out slower, by tokens.
BARS = {8: 0.10, 16: None, 32: None, 128: 0.02}


class _NoPath(nullcontext[Any]):
    """Stands for the mode that notes the path of operations."""

    path = 1

    def __enter__(self) -> Any:
        return self


@contextmanager
def unchecked() -> Iterator[None]:
    """Leave-one-out as it would be if nothing were checked after the first run."""
    never = 10**9
    with (
        patch("looprop.models.adapter.PathMode", _NoPath),
        patch("looprop.removal.trust.FEW_VARIANTS", never),
        patch("looprop.removal.trust.EVERY", never),
    ):
        yield


def bert(*, quick: bool) -> Any:
    """A random BERT of four layers."""
    torch.manual_seed(0)
    width = 64 if quick else 768
    config = transformers.BertConfig(
        num_hidden_layers=4, hidden_size=width, num_attention_heads=width // 64, intermediate_size=4 * width
    )
    return transformers.BertForSequenceClassification(config).eval()


def leave_one_out(adapter: Adapter, tokens: int, texts: int) -> list[Any]:
    """Of so many random texts."""
    generator = torch.Generator().manual_seed(tokens)
    size = adapter.model.config.vocab_size  # type: ignore[union-attr]
    keep = ~np.eye(tokens, dtype=bool)
    found = []
    for _ in range(texts):
        subject = subject_of(adapter, torch.randint(5, size, (1, tokens), generator=generator))  # type: ignore[arg-type]
        found.append(subject.output - SetFunction(subject)(keep))
    return found


def measure(name: str, adapter: Adapter, tokens: int, repeats: int) -> dict[str, Any]:
    """One row: medians with checks and without, of as many texts as pass between two checks."""
    texts = EVERY if tokens < FEW_VARIANTS else 1
    bare = adapter.renewed()

    def without() -> list[Any]:
        with unchecked():
            return leave_one_out(bare, tokens, texts)

    jobs = {"with": lambda: leave_one_out(adapter, tokens, texts), "without": without}
    error = max(float(np.abs(a - b).max()) for a, b in zip(jobs["with"](), jobs["without"](), strict=True))
    times = take_turns(jobs, repeats=repeats)
    cost = times["with"].cpu / times["without"].cpu - 1
    bar = BARS.get(tokens)
    row = {"model": name, "tokens": tokens, "texts": texts, "cost": cost, "bar": bar, "largest_difference": error}
    row |= {"milliseconds_per_text": {job: asdict(of / (texts * 1e-3)) for job, of in times.items()}}
    print(f"{name}, {tokens} tokens: checks cost {100 * cost:.1f} %, bar {bar}, difference {error:.1e}", flush=True)
    return row


def main(arguments: list[str] | None = None) -> int:
    """Measures, writes, and says whether the bars were met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--tokens", type=int, nargs="+", default=list(BARS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--output", type=Path, default=RESULTS / "check_cost.json")
    given = parser.parse_args(arguments)
    torch.set_num_threads(given.threads)
    adapters = {
        "embedded": load().adapter,
        "bert, 4 layers": TextClassifier(bert(quick=given.quick), lambda text: text),
    }
    tokens, repeats = ([8], 1) if given.quick else (given.tokens, given.repeats)
    rows = [measure(name, adapter, t, repeats) for name, adapter in adapters.items() for t in tokens]
    write_json(given.output, {**machine(), "repeats": repeats, "quick": given.quick, "rows": rows})
    missed = [row for row in rows if row["bar"] is not None and row["cost"] > row["bar"]]
    return int(bool(missed) and not given.quick)


if __name__ == "__main__":
    sys.exit(main())
