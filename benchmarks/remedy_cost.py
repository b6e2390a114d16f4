"""Does `looprop` cost what it says? Measured time in units of one plain forward pass, beside the passes that it counts.

A random model of BERT-base size, one text of 32, 128 and 512 tokens; every setting and the forward pass take turns.

    python -m benchmarks.remedy_cost --repeats 5

The bar: measured within 1.5 times the counted cost.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.common import RESULTS, machine, take_turns, write_json
from benchmarks.relevance_cost import build
from benchmarks.set_function import subject_of
from looprop.methods.base import Method
from looprop.methods.registry import make_method
from looprop.models.heads.text_classifier import TextClassifier

TOKENS = (32, 128, 512)
METHODS = (
    "looprop[rows=0]",
    "looprop[budget=4]",
    "looprop[budget=11]",
    "looprop[rows=1]",
    "looprop",
    "looprop[rows=8,refine=4]",
)
BAR = 1.5


def random_ids(tokens: int) -> Tensor:
    """A text of so many random tokens: (1, T)."""
    return torch.randint(1000, 30000, (1, tokens), generator=torch.Generator().manual_seed(tokens))


def measure(adapter: TextClassifier, tokens: int, repeats: int) -> list[dict[str, Any]]:
    """One row per setting: counted passes, measured passes, their ratio."""
    counted: dict[str, float] = {}

    def explain(name: str, method: Method) -> None:
        # A fresh subject each time: nothing is remembered from the turn before.
        counted[name] = method.attribute([subject_of(adapter, random_ids(tokens))])[0].cost

    def forward() -> None:
        with torch.inference_mode():
            adapter.logits(subject_of(adapter, random_ids(tokens)).encoded.inputs, positions=1)

    methods = {name: make_method(name) for name in METHODS}
    jobs = {"forward": forward, **{name: lambda n=name, m=method: explain(n, m) for name, method in methods.items()}}  # type: ignore[misc]
    times = take_turns(jobs, repeats=repeats)
    rows = []
    for name in METHODS:
        measured = {kind: getattr(times[name], kind) / getattr(times["forward"], kind) for kind in ("cpu", "wall")}
        rows.append(
            {
                "tokens": tokens,
                "method": name,
                "counted": counted[name],
                **measured,
                "ratio": measured["cpu"] / counted[name],
            }
        )
        figures = f"counted {counted[name]:6.1f}  measured {measured['cpu']:6.1f}  ratio {rows[-1]['ratio']:.2f}"
        print(f"{tokens:>5}  {name:<26} {figures}", flush=True)
    return rows


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, write JSON; 1 if the bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, nargs="+", default=TOKENS)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=Path, default=RESULTS / "remedy_cost.json")
    given = parser.parse_args(arguments)
    torch.set_num_threads(given.threads)
    adapter = TextClassifier(build(), lambda text: text)
    rows = [row for tokens in given.tokens for row in measure(adapter, tokens, given.repeats)]
    write_json(given.output, {"bar": BAR, "repeats": given.repeats, **machine(), "rows": rows})
    return int(any(row["ratio"] > BAR for row in rows))


if __name__ == "__main__":
    sys.exit(main())
