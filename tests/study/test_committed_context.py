"""The runs of `context` under results/: whole, without errors, and their verdicts are those of their rows."""

from pathlib import Path

import numpy as np
import pytest
from experiments.context.claims import AHEAD, context_claims
from experiments.context.measuring import GIVEN
from experiments.context.methods import CONTEXT_CITE
from experiments.context.tables import values_of

from looprop.study import read_run
from looprop.study.run import Run

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture(params=["context-squad", "context-hotpot"])
def run(request: pytest.FixtureRequest) -> Run:
    folder = RESULTS / request.param
    if not (folder / "manifest.json").is_file():
        pytest.skip(f"{folder.name} has not been run: looprop reproduce context")
    return read_run(folder)


def test_the_run_is_whole(run: Run) -> None:
    assert run.finished
    assert not [row["error"] for row in run.rows if row["error"]]
    assert {row["answer"] for row in run.rows} >= {GIVEN}


def test_leave_one_out_is_itself(run: Run) -> None:
    for row in run.rows:
        if row["method"] == "loo":
            assert row["scores"] == pytest.approx(row["loo"])
            assert np.isnan(row["r"]) or row["r"] == pytest.approx(1.0)


def test_verdicts_are_those_of_the_rows(run: Run) -> None:
    """Whichever way they come out: a verdict says "holds" only where the mean lies on its side."""
    claims = {claim.claim: claim for claim in context_claims(run)}
    for measure in AHEAD:
        own, rival = (np.array(values_of(run.rows, GIVEN, name, measure)) for name in ("looprop", CONTEXT_CITE))
        difference = np.nanmean(own - rival)
        (claim,) = [c for name, c in claims.items() if name.startswith("looprop ") and _says(name, measure)]
        assert claim.holds is None or claim.holds == (difference > 0)


def _says(claim: str, measure: str) -> bool:
    title = {"r": "r to LOO", "lds": "LDS"}.get(measure, measure.replace("@", " "))
    return f" in {title} (answer {GIVEN})" in claim
