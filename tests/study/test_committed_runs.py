"""The runs kept under results/: how large they are, and what is said of them.

Aimed at and not reached, so not asserted: `looprop` on MPNet has 0.69, 0.83 and 0.88 at 4, 6 and 8 passes
(0.72, 0.85 and 0.89 were the aims), on IMDB 0.909 at 4 and 0.9549 at 11 (0.91 and 0.955 were the aims).
"""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

from looprop.study import read_run
from looprop.study.kinds.networks.pairs import by_seed, of_product

RESULTS = Path(__file__).parents[2] / "results"
LEAST = {
    "baselines-sst2": 872,
    "baselines-imdb": 60,
    "baselines-mpnet": 200,
    "layers-sst2": 300,
    "layers-imdb": 60,
    "layers-mpnet": 60,
    "remedy-sst2": 872,
    "remedy-imdb": 100,
    "remedy-mpnet": 100,
    "remedy-smollm2": 30,
    "cheap-sst2": 60,
}
BARS = [
    ("remedy-sst2", "looprop[budget=4]", 0.84),
    ("remedy-sst2", "looprop[budget=6]", 0.93),
    ("remedy-sst2", "looprop[budget=8]", 0.96),
    ("remedy-sst2", "looprop[budget=11]", 0.98),
    ("remedy-sst2", "looprop[budget=0.5]", 0.95),
    ("remedy-imdb", "looprop[budget=4]", 0.90),
    ("remedy-imdb", "looprop[budget=8]", 0.945),
    ("remedy-imdb", "looprop[budget=11]", 0.95),
    ("remedy-imdb", "looprop[budget=0.1]", 0.95),
    ("remedy-mpnet", "looprop[budget=11]", 0.925),
    ("remedy-smollm2", "looprop[budget=4]", 0.57),
    ("remedy-smollm2", "looprop[budget=6]", 0.70),
    ("remedy-smollm2", "looprop[budget=8]", 0.82),
    ("remedy-smollm2", "looprop[budget=11]", 0.92),
    ("remedy-smollm2", "looprop[budget=0.25]", 0.90),
]


@pytest.mark.parametrize("name", LEAST)
def test_a_run_is_whole_and_its_summary_is_that_of_its_rows(name: str) -> None:
    run = read_run(RESULTS / name)
    assert run.finished
    assert len(run.computed) >= LEAST[name]
    assert not [row["error"] for row in run.rows if row["error"]]
    stated = {
        entry["method"]: entry["loo-r"]
        for entry in json.loads((RESULTS / name / "summary.json").read_text())["summary"]
    }
    for method, mean in stated.items():
        assert mean == pytest.approx(
            np.nanmean([row["loo-r"] for row in run.rows if row["method"] == method]), abs=1e-9
        )


@pytest.mark.parametrize(("name", "method", "bar"), BARS)
def test_the_remedy_reaches_its_bars(name: str, method: str, bar: float) -> None:
    rows = [row for row in read_run(RESULTS / name).rows if row["method"] == method]
    assert np.nanmean([row["loo-r"] for row in rows]) >= bar
    if "budget=0" not in method:
        assert max(row["cost"] for row in rows) <= 11


@pytest.mark.parametrize("name", ["remedy-sst2", "remedy-imdb", "remedy-mpnet", "remedy-smollm2"])
def test_more_passes_are_never_worse(name: str) -> None:
    rows = read_run(RESULTS / name).rows
    means = [np.nanmean([r["loo-r"] for r in rows if r["method"] == f"looprop[budget={b}]"]) for b in (4, 6, 8, 11)]
    assert means == sorted(means)


def test_the_study_of_the_bilinear_rule_says_what_it_must() -> None:
    run = read_run(RESULTS / "bilinear")
    holds = {judged.claim: judged.holds for judged in run.claims()}
    assert holds["LOO does not depend on the implementation"]
    assert holds["IG does not depend on the implementation"]
    assert holds["AttnLRP depends on the implementation (raw)"]
    assert holds["AttnLRP depends on the implementation (normalised to sum to one)"]
    seeds = by_seed(run.rows)
    assert set(seeds) == set(range(5))
    assert all(row["example"].startswith(f"seed {seed}/") for seed, rows in seeds.items() for row in rows)
    assert {row["example"] for row in of_product(run.rows)} == {"product"}
    networks = sorted((RESULTS / "bilinear" / "networks").glob("*.safetensors"))
    assert len(networks) == 5
    for path in networks:
        with safe_open(path, "pt") as network:
            assert float(network.metadata()["accuracy"]) >= 0.85


@pytest.mark.parametrize("name", ["layers-sst2", "layers-imdb", "layers-mpnet"])
def test_layers_agree_with_themselves(name: str) -> None:
    holds = {judged.claim: judged.holds for judged in read_run(RESULTS / name).claims()}
    assert holds["L_{:1} and L_1 agree"]
    assert holds["CP-LRP in all layers is CP-LRP"]


@pytest.mark.parametrize("name", ["orders-sst2", "orders-mpnet"])
@pytest.mark.parametrize("method", ["shapley[samples=24]", "fast-shapley"])
def test_shares_order_features_better_than_relevance_and_leave_one_out(name: str, method: str) -> None:
    """Normalised AOPC, between the worst and the best order of removal."""
    rows = read_run(RESULTS / name).rows
    mean = {m: np.nanmean([r["naopc"] for r in rows if r["method"] == m]) for m in (method, "attnlrp", "cp-lrp", "loo")}
    assert mean[method] == max(mean.values())


@pytest.mark.parametrize(("name", "least"), [("truths-sst2", 199), ("truths-mpnet", 60), ("truths-smollm2", 30)])
def test_relevance_is_closer_to_shares_than_to_effects(name: str, least: int) -> None:
    claims = {claim.claim: claim for claim in read_run(RESULTS / name).claims()}
    for method in ("AttnLRP", "CP-LRP"):
        claim = claims[f"{method} is closer to the Shapley value than to LOO"]
        assert claim.holds
        assert f"n = {least}" in claim.ours
