"""Claims are judged as the numbers say, whichever way; on made-up rows whose answer is known."""

import math
from pathlib import Path

import numpy as np
import pytest

from looprop.evaluation.setup import Setup
from looprop.study import Run, load_spec
from looprop.study.claims import JudgedClaim
from looprop.study.kinds.texts.claims import single_layer_gains
from looprop.study.kinds.texts.layers import layer_plans
from looprop.study.report.grids import Contents, claims_table, run_facts
from looprop.study.report.writing import html_report, markdown_report

LAYERS, EXAMPLES = 4, 40


def made_up(
    experiment: str, values: dict[str, list[float]], *, title: str = "made up", entropy: list[float] | None = None
) -> Run:
    """A run in which loo-r and delta of a method are the values given, example by example."""
    spec = load_spec(experiment)
    rows = []
    for i in range(EXAMPLES):
        for method, own in values.items():
            metrics = dict.fromkeys(spec.metrics, own[i])
            row = {"example": str(i), "method": method, **metrics, "scores": [1.0, own[i]], "note": "", "error": ""}
            row["entropy"] = entropy if method == "attnlrp" else []
            rows.append({**row, "flipped": False, "cost": 1.0, "seconds": 0.0})
    identity = {"spec": spec.to_dict(), "setup": Setup(tuple(values), spec.metrics).to_dict(), "seed": 0}
    session = {"damaged": [], "finished": None, "versions": {"torch": "0"}}
    manifest = {
        "identity": identity,
        "title": title,
        "tasks": EXAMPLES,
        "data": "sst2",
        "data_title": title,
        "model": "made up",
    }
    return Run(Path(), {**manifest, "layers": LAYERS, "fingerprint": "0", "sessions": [session]}, rows)


def judged(run: Run) -> dict[str, JudgedClaim]:
    return {own.claim: own for own in run.claims()}


def noise(mean: float, seed: int, spread: float = 0.05) -> list[float]:
    return (mean + spread * np.random.default_rng(seed).standard_normal(EXAMPLES)).tolist()


@pytest.mark.parametrize(("cp", "expected"), [(0.5, True), (0.1, False), (0.3, None)])
def test_cp_against_attnlrp(cp: float, expected: bool | None) -> None:
    base = noise(0.3, 0)
    # The third case has differences that are symmetric around 0.
    other = [b + (-1) ** i * 0.01 for i, b in enumerate(base)] if expected is None else noise(cp, 1)
    claims = judged(made_up("baselines", {"attnlrp": base, "cp-lrp": other, "ig": noise(0.0, 2)}))
    assert claims["CP-LRP's r is higher than AttnLRP's"].holds is expected
    assert claims["CP-LRP's r is higher than AttnLRP's"].paper == "+0.30"
    lower = claims["CP-LRP's delta is lower than AttnLRP's"]
    assert lower.holds is (None if expected is None else not expected)
    assert claims["IG hardly correlates with LOO (|r| below 0.1)"].holds


def layered(gains: list[float]) -> dict[str, list[float]]:
    base = noise(0.3, 0)
    values = {"loo": [1.0] * EXAMPLES, "attnlrp": base, "cp-lrp": base, **dict.fromkeys(layer_plans(LAYERS), base)}
    for k, gain in enumerate(gains, 1):
        values[f"lrp[cp={k}]"] = [b + gain + n for b, n in zip(base, noise(0.0, k, 0.01), strict=True)]
    values["lrp[cp=:1]"] = values["lrp[cp=1]"]
    return values


@pytest.mark.parametrize(("gains", "expected"), [([0.0, 0.0, 0.1, 0.2], True), ([0.2, 0.1, 0.0, 0.0], False)])
def test_where_the_gains_are(gains: list[float], expected: bool) -> None:
    run = made_up("layers", layered(gains), entropy=[0.1, 0.2, 0.3, 0.4])
    np.testing.assert_allclose(single_layer_gains(run, "loo-r").mean(1), gains, atol=0.01)
    claims = judged(run)
    later = claims["the gains in r from single layers are larger in the later half of the layers (3 to 4)"]
    assert later.holds is expected
    assert claims["L_{:1} and L_1 agree"].holds
    assert claims["CP-LRP in all layers is CP-LRP"].holds
    # With 4 layers no order is rare enough to decide anything: 1 of 24, both directions.
    assert claims["layers with flatter attention gain more"].holds is None
    # 6 and 10 of 12 are 2 and 3.3 of 4.
    assert claims["single layers peak around layers 2 and 3.33333 of 4"].ours.startswith(
        f"highest: {4 if expected else 1} "
    )


def test_rows_that_differ_do_not_agree() -> None:
    values = layered([0.0, 0.0, 0.0, 0.0])
    values["lrp[cp=:4]"] = noise(0.9, 5)
    claims = judged(made_up("layers", values, entropy=[0.1, 0.2, 0.3, 0.4]))
    assert claims["CP-LRP in all layers is CP-LRP"].holds is False


def test_undefined_values_are_left_out() -> None:
    values = {"attnlrp": noise(0.3, 0), "cp-lrp": [math.nan, *noise(0.5, 1)[1:]]}
    claims = judged(made_up("baselines", values))
    assert f"n = {EXAMPLES - 1}" in claims["CP-LRP's r is higher than AttnLRP's"].ours


def test_whatever_stands_in_a_title_is_escaped() -> None:
    run = made_up(
        "baselines", {"attnlrp": noise(0.3, 0), "cp-lrp": noise(0.5, 1)}, title="<img src=x onerror=alert(1)> | *x*"
    )
    page = html_report([Contents(run, [claims_table(run.claims(), run.kind.claims_title)], [])])
    assert "<img" not in page
    assert "&lt;img src=x" in page
    assert dict(run_facts(run))["finished"] == "not yet"
    assert markdown_report([Contents(run, [], [])]).startswith(r"# \<img src=x onerror=alert(1)\> \| \*x\*")
