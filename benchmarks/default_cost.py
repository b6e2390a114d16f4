"""Is there a length of text at which `looprop`, as it comes, takes more CPU time than exact leave-one-out?

The embedded model, one text of demo sentences cut to 5 to 512 tokens; both take turns, each time on a subject of which
nothing is known.

    python -m benchmarks.default_cost

The bar: at no length more than 1.05 times leave-one-out's median. Up to 18 tokens the two are the same computation.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import torch

from benchmarks.common import RESULTS, machine, take_turns, write_json
from looprop.inputs import demo_sentences
from looprop.methods.registry import make_method
from looprop.models.subject import bind
from looprop.workbench import Workbench, load

TOKENS = (*range(5, 25), 28, 32, 40, 48, 64, 128, 256, 512)
BAR = 1.05
# Runs of each, where leave-one-out is cheap; one of a length of some hundreds takes a minute.
REPEATS, CHEAP = 7, 64


def text_of(workbench: Workbench, tokens: int) -> str:
    """A text of so many tokens."""
    words = " ".join([*demo_sentences().texts] * 4).split()
    low, high = 1, len(words)
    while low < high:  # the longest beginning that has no more tokens
        middle = (low + high + 1) // 2
        fits = len(workbench.adapter.encode(" ".join(words[:middle]), truncation=True)) <= tokens
        low, high = (middle, high) if fits and middle <= tokens else (low, middle - 1)
    return " ".join(words[:low])


def measure(workbench: Workbench, tokens: int, repeats: int) -> dict[str, Any]:
    """CPU seconds of both at one length, and their ratio."""
    text = text_of(workbench, tokens)
    details: dict[str, Any] = {}

    def explain(name: str) -> None:
        subject = bind(workbench.adapter, text, truncation=True)
        details[name] = make_method(name).attribute([subject])[0]

    times = take_turns(
        {name: lambda n=name: explain(n) for name in ("loo", "looprop")}, repeats=repeats, warm_up=repeats > 1
    )  # type: ignore[misc]
    row = {
        "tokens": len(details["loo"].scores),
        "loo": times["loo"].cpu,
        "looprop": times["looprop"].cpu,
        "ratio": times["looprop"].cpu / times["loo"].cpu,
        "passes": details["looprop"].cost,
        "repeats": repeats,
    }
    print(
        f"{row['tokens']:>5}  loo {row['loo']:8.3f} s  looprop {row['looprop']:8.3f} s  ratio {row['ratio']:.2f}",
        flush=True,
    )
    return row


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, write JSON; 1 if the bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, nargs="+", default=TOKENS)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", type=Path, default=RESULTS / "default_cost.json")
    given = parser.parse_args(arguments)
    torch.set_num_threads(given.threads)
    workbench = load()
    rows = [measure(workbench, n, given.repeats if n <= CHEAP else 1) for n in given.tokens]
    write_json(given.output, {"bar": BAR, **machine(), "rows": rows})
    return int(any(row["ratio"] > BAR for row in rows))


if __name__ == "__main__":
    sys.exit(main())
