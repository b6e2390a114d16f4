"""Texts (RQ2 and RQ3): methods, or plans layer by layer, on a data set of texts."""

from collections.abc import Sequence

from looprop.errors import DataError
from looprop.evaluation.setup import Setup
from looprop.study.claims import JudgedClaim
from looprop.study.job import Job, Options
from looprop.study.kind import Kind, Picture
from looprop.study.kinds.texts.claims import baseline_claims, layer_claims
from looprop.study.kinds.texts.job import text_job
from looprop.study.kinds.texts.tables import layer_tables, text_tables
from looprop.study.report.grids import Grid
from looprop.study.run import Run
from looprop.study.spec import Spec

BASELINES, LAYERS = "baselines", "layers"
"""The paper's own two experiments on texts: what it claims is about these, and the second has tables of its own."""


class Texts(Kind):
    """One task per text."""

    evaluates = True

    def check(self, spec: Spec) -> None:
        for name, of_data in spec.data.items():
            if of_data.features != "token":
                raise DataError(f"features are for experiments of kind 'truths', got {of_data.features!r} on {name}")
            Setup(
                spec.methods, spec.metrics, curve_features=of_data.curve_features
            )  # raises for what nobody can remove

    def job(self, spec: Spec, options: Options) -> Job:
        options.check_unused("references", because=f"{spec.name} compares with leave-one-out alone")
        return text_job(spec, options)

    def tables(self, run: Run) -> list[Grid]:
        return layer_tables(run) if run.experiment == LAYERS else text_tables(run)

    def claims(self, run: Run) -> list[JudgedClaim]:
        if run.experiment == LAYERS:
            return layer_claims(run)
        return [*baseline_claims(run)] if run.experiment == BASELINES else []

    def picture(self, runs: Sequence[Run]) -> Picture:
        from looprop.study.kinds.texts.figures import cost_figure, layers_figure  # matplotlib, only for reports

        if runs[0].experiment == LAYERS:
            return Picture("Figure 2: LOO r and delta by layer", layers_figure(runs))
        return Picture("LOO r against cost", cost_figure(runs))


KIND = Texts()
