"""Truths: every method against two references on the same examples, leave-one-out and the Shapley value.

text in features -> both references, computed or known -> each method's r to both -> which is it closer to?
"""

from collections.abc import Sequence

from looprop.errors import DataError
from looprop.study import Grid, Job, JudgedClaim, Kind, Options, Picture, Run, Spec

from .claims import truth_claims
from .job import second_reference, truth_job
from .measuring import METRICS
from .tables import truth_tables


class Truths(Kind):
    """One task per text. Its metrics are r to both references, of what does not always stay."""

    evaluates = True
    claims_title = "Questions, answered on these numbers"

    def check(self, spec: Spec) -> None:
        second_reference(spec.methods)  # raises where there is none
        if set(spec.metrics) != set(METRICS):
            raise DataError(f"an experiment of kind {spec.kind!r} has the metrics {', '.join(METRICS)} and no others")

    def job(self, spec: Spec, options: Options) -> Job:
        return truth_job(spec, options)

    def tables(self, run: Run) -> list[Grid]:
        return truth_tables(run)

    def claims(self, run: Run) -> list[JudgedClaim]:
        return truth_claims(run)

    def picture(self, runs: Sequence[Run]) -> Picture:
        from .figure import truths_figure  # matplotlib is imported only for reports

        return Picture("r to leave-one-out and r to the Shapley value", truths_figure(runs))


KIND = Truths()
