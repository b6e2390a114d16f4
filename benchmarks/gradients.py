"""What a pass under rules and a step of integrated gradients cost: beside forward + gradient, and beside captum.

CPU time of this process, sides taking turns in it; captum where it is installed (`.bench/captum/bin/python`). Once more
with products by torch's own choice, so that it is seen what of a ratio comes from the library that multiplies.

    python -m benchmarks.gradients --repeats 5
    python -m benchmarks.gradients --quick             # tiny: does it run?
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # waiting threads would count as CPU time

import argparse
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from benchmarks import cases
from benchmarks.common import RESULTS, Times, machine, take_turns, write_json
from benchmarks.exchange import Case, read_case
from benchmarks.sections import FULL, QUICK
from benchmarks.sides.looprop import explain, gradient
from looprop.intercept.products import VARIABLE, by_onednn

RULES, BARS = ("attnlrp", "cp-lrp"), {"lrp": 1.10, "ig": 1.0}
MOST_TOKENS = 4096


def by_torch(run: Callable[[], object]) -> Callable[[], object]:
    """The same with torch's own products."""

    def ran() -> object:
        os.environ[VARIABLE] = "torch"
        try:
            return run()
        finally:
            del os.environ[VARIABLE]

    return ran


def both(named: dict[str, Callable[[], object]]) -> dict[str, Callable[[], object]]:
    """Each job of ours with the products that suit the processor, and with torch's own."""
    return {**named, **{f"{name}, torch's products": by_torch(run) for name, run in named.items()}}


def rules(case: Case, repeats: int) -> tuple[dict[str, Times], str]:
    """Passes under rules, and plain forward + gradient."""
    own = both({method: explain(case, method=method).run for method in RULES})
    return take_turns({"gradient": gradient(case).run, **own}, repeats=repeats), "gradient"


def line(case: Case, steps: int, repeats: int) -> tuple[dict[str, Times], str] | None:
    """Integrated gradients of as many steps."""
    if find_spec("captum") is None:
        return None
    from benchmarks.sides.captum import integrated_gradients

    own = both({"ig": explain(case, method="ig", steps=steps).run})
    return take_turns({"captum": integrated_gradients(case, steps=steps).run, **own}, repeats=repeats), "captum"


def main() -> None:
    """All cells, printed and written."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS / "gradients.json")
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # few steps leave a residual, and it is said
    sizes, repeats = (QUICK, 1) if given.quick else (FULL, given.repeats)
    cases.embedded_model()  # its tokenizer makes the texts
    rows: list[dict[str, Any]] = []
    for name, model in (("BERT", cases.bert(sizes.bert)), ("Llama", cases.llama(sizes.llama))):
        for tokens, (_, _, steps) in sizes.per_length.items():
            for texts in (1, sizes.batch):
                if texts * tokens > MOST_TOKENS:
                    continue
                case = read_case(cases.random_texts(model, tokens, texts))
                cells = {"lrp": rules(case, repeats), "ig": line(case, steps, repeats) if texts == 1 else None}
                for group, cell in cells.items():
                    if cell is None:
                        continue
                    times, unit = cell
                    ratios = {side: of.cpu / times[unit].cpu for side, of in times.items() if side != unit}
                    rows.append({"group": group, "model": name, "tokens": tokens, "texts": texts, "unit": unit})
                    rows[-1] |= {"ratios": ratios, "bar": BARS[group], "unit_cpu": times[unit].cpu}
                    said = ", ".join(f"{side} {ratio:.2f}" for side, ratio in ratios.items())
                    print(f"{name}, {texts} of {tokens} tokens, over {unit}: {said}", flush=True)
    if not given.quick:
        write_json(given.out, {"machine": machine(), "onednn": by_onednn(), "cells": rows})


if __name__ == "__main__":
    main()
