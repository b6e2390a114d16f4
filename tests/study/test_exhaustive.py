"""All maskings: a made-up model whose answers are known by hand, what is refused, and the verdicts of the run that is
kept.
"""

from itertools import permutations
from pathlib import Path

import numpy as np
import pandas
import pytest
from experiments.exhaustive.maskings import read_maskings

from looprop.errors import DataError
from looprop.study import read_run, reproduce

KEPT = Path(__file__).parents[2] / "results" / "exhaustive"
WORTH = {0: [2.0, -1.0, 0.5], 1: [-1.0, -0.5, -0.25, -2.0]}
"""What each word adds to the positive logit, by sentence; nothing to the negative one, which is zero."""


def probability(worth: list[float], kept: set[int]) -> float:
    return float(1 / (1 + np.exp(-sum(worth[i] for i in kept))))


def areas(worth: list[float]) -> dict[tuple[int, ...], float]:
    found = {}
    for order in permutations(range(len(worth))):
        kept, drops = set(range(len(worth))), []
        for word in order:
            kept -= {word}
            drops.append(probability(worth, set(range(len(worth)))) - probability(worth, kept))
        found[order] = float(np.mean(drops))
    return found


@pytest.fixture
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "naopc"
    folder.mkdir()
    logits, scores, limits = [], [], []
    for id, worth in WORTH.items():
        count = len(worth)
        for bits in range(2**count):
            masked = [i + 1 for i in range(count) if bits >> i & 1]
            left = sum(worth[i] for i in range(count) if not bits >> i & 1)
            logits.append({"id": id, "word_key": str(masked), "positive_logit": left, "negative_logit": 0.0})
        explained = np.array(worth) * (1 if sum(worth) > 0 else -1)  # of the predicted class
        maps = {"lime": explained, "decompx": np.array(worth), "kernelshap": np.append(explained, 1.0)}
        for name, own in maps.items():
            scores.append({"id": id, "explanation_method": name, "word_attributions": [9.0, *own, 9.0]})
        by_order = areas(worth)
        best, worst = max(by_order, key=lambda o: by_order[o]), min(by_order, key=lambda o: by_order[o])
        own_limits = {"upper_limit": by_order[best], "lower_limit": by_order[worst], "number_of_elements": count}
        limits.append({"id": id, "upper_limit_order": [w + 1 for w in best], **own_limits})
    for kind, rows in (("logits", logits), ("scores", scores), ("limits", limits)):
        pandas.DataFrame(rows).to_parquet(folder / f"{kind}_sst2_made-up.parquet")
    (folder / "sentences_sst2.csv").write_text("id,text\n0,one two three\n1,one two three four\n")
    monkeypatch.setenv("LOOPROP_DATA", str(tmp_path))
    return folder


def test_of_an_additive_model_everything_is_known(made_up: Path, tmp_path: Path) -> None:
    run = reproduce("exhaustive", out=tmp_path / "run", progress=False)
    by_cell = {(row["sentence"], row["method"]): row for row in run.rows}
    for id, worth in WORTH.items():
        side = 1 if sum(worth) > 0 else -1
        for method in ("loo", "alone", "both-ends", "shapley"):
            row = by_cell[id, method]
            # The negative logit is always zero: where it is the predicted one, nothing has an effect.
            np.testing.assert_allclose(row["scores"], worth if side > 0 else np.zeros(len(worth)), atol=1e-12)
        row = by_cell[id, "decompx"]
        assert (row["loo-r"], row["shapley-r"], row["naopc"]) == pytest.approx((1, 1, 1))
        assert max(row["best error"], row["worst error"], row["efficiency error"]) < 1e-12
        assert (id, "kernelshap") not in by_cell, "scores of another number of words are left out"
        assert row["misfits"] == 1
    assert by_cell[0, "lime"]["loo-r"] == pytest.approx(1)
    assert {claim.claim: claim.holds for claim in run.claims()}["exact Shapley values add up to f(x) - f(nothing)"]


def test_a_masking_that_is_missing_is_named(made_up: Path) -> None:
    path = made_up / "logits_sst2_made-up.parquet"
    pandas.read_parquet(path).iloc[1:].to_parquet(path)
    with pytest.raises(DataError, match="sentence 0: 7 maskings of 3 words, 8 were expected"):
        read_maskings("made-up")


def test_without_the_data_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPROP_DATA", str(tmp_path))
    with pytest.raises(DataError, match="LOOPROP_DATA"):
        reproduce("exhaustive", out=tmp_path / "run", progress=False)


def test_it_has_its_own_models(made_up: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="takes no model"):
        reproduce("exhaustive", model="x", out=tmp_path / "run", progress=False)


# ----- the run that is kept


def test_what_the_kept_run_says() -> None:
    run = read_run(KEPT)
    assert run.finished
    assert len(run.computed) == 6 * 66
    verdicts = {judged.claim: judged.holds for judged in run.claims()}
    refused = [claim for claim, holds in verdicts.items() if not holds]
    assert [claim.split(" on ")[0] for claim in refused] == ["IG hardly correlates with LOO"] * 2, (
        "on the paper's own BERT, IG is close to leave-one-out, also where maps are divided by their sums"
    )
    assert len(verdicts) == 12


def test_limits_and_efficiency_to_ten_digits() -> None:
    rows = [row for row in read_run(KEPT).rows if row["method"] == "shapley"]
    assert max(row["efficiency error"] for row in rows) < 1e-10
    assert max(row["worst error"] for row in rows) < 1e-10
    sound = [row for row in rows if row["best error of its order"] < 1e-10]
    assert len(rows) - len(sound) == 12
    assert max(row["best error"] for row in sound) < 1e-10


def test_both_ends_come_closest_to_shapley_on_every_model() -> None:
    """Ahead of leave-one-out and of every published method."""
    rows = read_run(KEPT).rows
    for model in {row["model"] for row in rows}:
        own = [row for row in rows if row["model"] == model and row["method"] != "shapley"]
        means = {
            method: float(np.nanmean([row["shapley-r"] for row in own if row["method"] == method]))
            for method in {row["method"] for row in own}
        }
        assert max(means, key=lambda method: means[method]) == "both-ends", model


@pytest.mark.data
def test_the_kept_rows_are_those_of_the_data(tmp_path: Path) -> None:
    again = reproduce("exhaustive", out=tmp_path / "run", limit=2, progress=False)
    kept = {(row["example"], row["method"]): row for row in read_run(KEPT).rows}
    for row in again.rows:
        before = kept[row["example"], row["method"]]
        for name in ("loo-r", "shapley-r", "naopc", "loo-r-paper"):
            assert row[name] == pytest.approx(before[name], abs=1e-9, nan_ok=True)
