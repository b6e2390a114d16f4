"""What does "alone" cost? Every token of a text by itself, in CPU time of plain forward passes, taking turns with them.

Only the rows of the token, of the special tokens and of the read-out are run, so that the cost does not grow with the
text: at most 4 passes for 128 tokens is the bar. A random model of BERT-base size, and the embedded one.

    python -m benchmarks.alone_cost --repeats 5
    python -m benchmarks.alone_cost --quick            # tiny: does it run?
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # waiting threads would count as CPU time

import argparse
import sys
from pathlib import Path
from typing import Any

import torch

from benchmarks.common import RESULTS, machine, take_turns, write_json
from benchmarks.relevance_cost import build
from benchmarks.set_function import subject_of
from looprop.methods.alone import Alone
from looprop.models.adapter import Adapter
from looprop.models.heads.text_classifier import TextClassifier
from looprop.workbench import load

TOKENS = (32, 128)
BAR = {128: 4.0}


def measure(name: str, adapter: Adapter, tokens: int, repeats: int) -> dict[str, Any]:
    """Counted and measured passes of alone on one text of random tokens, of which the first and the last stay."""
    size = adapter.model.config.vocab_size  # type: ignore[union-attr]
    ids = torch.randint(5, size, (1, tokens), generator=torch.Generator().manual_seed(tokens))  # type: ignore[arg-type]
    method = Alone(keep=[0, tokens - 1])
    counted = method.attribute([subject_of(adapter, ids)])[0].cost  # and shortcuts are proven

    def forward() -> None:
        with torch.inference_mode():
            adapter.logits(subject_of(adapter, ids).encoded.inputs, positions=1)

    # A fresh subject each time: nothing is remembered from the turn before.
    jobs = {"forward": forward, "alone": lambda: method.attribute([subject_of(adapter, ids)])}
    times = take_turns(jobs, repeats=repeats)
    passes = {kind: getattr(times["alone"], kind) / getattr(times["forward"], kind) for kind in ("cpu", "wall")}
    bar = BAR.get(tokens)
    print(f"{name}, {tokens} tokens: counted {counted:.1f}, measured {passes['cpu']:.1f} passes, bar {bar}", flush=True)
    return {"model": name, "tokens": tokens, "counted": counted, **passes, "bar": bar}


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, write JSON; 1 if the bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--output", type=Path, default=RESULTS / "alone_cost.json")
    given = parser.parse_args(arguments)
    torch.set_num_threads(given.threads)
    adapters: dict[str, Adapter] = {"embedded": load().adapter}
    if not given.quick:
        adapters["BERT-base, random"] = TextClassifier(build(), lambda text: text)
    tokens, repeats = ((16,), 1) if given.quick else (TOKENS, given.repeats)
    rows = [measure(name, adapter, t, repeats) for name, adapter in adapters.items() for t in tokens]
    write_json(given.output, {**machine(), "repeats": repeats, "quick": given.quick, "rows": rows})
    return int(any(row["bar"] is not None and row["cpu"] > row["bar"] for row in rows) and not given.quick)


if __name__ == "__main__":
    sys.exit(main())
