"""Leave-one-out of a set of short texts, and a whole evaluation: beside a loop over attention masks and captum.

CPU time of this process, sides taking turns in it; captum where it is installed (`.bench/captum/bin/python`). Products
of float32 run by the library that suits the processor, and once more by torch's own choice, so that it is seen what of
a ratio comes from it.

    python -m benchmarks.many_texts --repeats 5
    python -m benchmarks.many_texts --quick            # tiny: does it run?
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # waiting threads would count as CPU time

import argparse
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from benchmarks import cases
from benchmarks.common import RESULTS, machine, take_turns, write_json
from benchmarks.exchange import Case, read_case
from benchmarks.sections import FULL, QUICK, Sizes
from benchmarks.sides.looprop import subjects
from benchmarks.sides.plain import loop, masked, model_of
from looprop.intercept.products import VARIABLE, by_onednn
from looprop.methods.loo import LeaveOneOut

TOKENS = (8, 32)
TEXTS = 64
BAR = 1.3


def jobs(case: Case, tokens: int) -> dict[str, Callable[[], object]]:
    """Leave-one-out of all texts, by each side."""
    import numpy as np

    keep, batch = ~np.eye(tokens, dtype=bool), max(1, min(64, 2048 // tokens))
    model = model_of(case)
    forwards = [masked(model, ids, target) for ids, target in zip(case.ids, case.targets, strict=True)]

    def by_torch() -> object:
        os.environ[VARIABLE] = "torch"
        try:
            return LeaveOneOut().attribute(subjects(case))
        finally:
            del os.environ[VARIABLE]

    found: dict[str, Callable[[], object]] = {
        "looprop": lambda: LeaveOneOut().attribute(subjects(case)),
        "looprop, torch's products": by_torch,
        "loop": lambda: [loop(forward, keep, batch) for forward in forwards],
    }
    if find_spec("captum") is not None:
        from captum.attr import FeatureAblation

        def ablation() -> object:
            with torch.inference_mode():
                return [
                    FeatureAblation(forward).attribute(
                        torch.ones(1, tokens),
                        baselines=0.0,
                        perturbations_per_eval=batch,
                        enable_cross_tensor_attribution=False,
                    )
                    for forward in forwards
                ]

        found["captum"] = ablation
    return found


def measure(name: str, model: Path, tokens: int, texts: int, repeats: int) -> dict[str, Any]:
    """One cell: CPU seconds of each side, and the quickest peer's over ours."""
    times = take_turns(jobs(read_case(cases.random_texts(model, tokens, texts)), tokens), repeats=repeats)
    peer = min(of.cpu for side, of in times.items() if not side.startswith("looprop"))
    row = {"model": name, "tokens": tokens, "texts": texts, "cpu": {side: of.cpu for side, of in times.items()}}
    ratio = peer / times["looprop"].cpu
    own = peer / times["looprop, torch's products"].cpu
    print(
        f"{name}, {texts} texts of {tokens} tokens: {ratio:.2f} times the quickest peer, {own:.2f} by torch's products"
    )
    return {**row, "ratio": ratio, "ratio_torch": own, "bar": BAR, "met": ratio >= BAR}


def main() -> None:
    """All cells, printed and written."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS / "many_texts.json")
    given = parser.parse_args()
    torch.set_num_threads(1)
    sizes: Sizes = QUICK if given.quick else FULL
    cases.embedded_model()  # its tokenizer makes the texts
    models = (("BERT", cases.bert(sizes.bert)), ("Llama", cases.llama(sizes.llama)))
    texts, repeats = (9, 1) if given.quick else (TEXTS, given.repeats)
    rows = [measure(name, model, tokens, texts, repeats) for name, model in models for tokens in TOKENS]
    if not given.quick:
        write_json(given.out, {"machine": machine(), "onednn": by_onednn(), "loo": rows})
    sys.exit(0)


if __name__ == "__main__":
    main()
