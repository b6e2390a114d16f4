"""Planted: models with hand-set weights (`circuits.py`) whose right answer is known, under every method.

case (model, text, the answer by hand) -> what each method says -> r to the known answers, word by word
"""

from functools import partial
from pathlib import Path

from looprop.errors import UnknownNameError
from looprop.running.missing import Work
from looprop.running.provenance import weights_hash
from looprop.study import About, Grid, Job, JudgedClaim, Kind, Options, Run, Spec, Task, planted_model
from looprop.study.planted_models import CIRCUITS

from .case import PlantedCase
from .measuring import measure_planted
from .tables import known_answers, planted_tables


class Planted(Kind):
    """One task per case."""

    case = PlantedCase
    claims_title = "Known answers, found again"

    def check(self, spec: Spec) -> None:
        for name, case in spec.cases.items():
            if case.model not in CIRCUITS:
                raise UnknownNameError(f"planted model of case {name!r}", str(case.model), CIRCUITS)
            case.check(name)

    def job(self, spec: Spec, options: Options) -> Job:
        unused = ("model", "data", "limit", "loo_from", "references")
        options.check_unused(*unused, because=f"{spec.name} has its own cases")

        def prepare(folder: Path, *, progress: bool) -> Work:
            return partial(measure_planted, spec)

        tasks = [Task(name, case) for name, case in spec.cases.items()]
        models = sorted({case.model for case in spec.cases.values()})
        identity = {"spec": spec.to_dict(), "weights": {name: weights_hash(planted_model(name)[0]) for name in models}}
        cases = f"{len(tasks)} cases"
        about = About("hand-set Transformers", "planted", cases, subset=False, examples=len(tasks))
        return Job(f"{spec.name}: {cases}", tasks, prepare, identity, about)

    def tables(self, run: Run) -> list[Grid]:
        return planted_tables(run)

    def claims(self, run: Run) -> list[JudgedClaim]:
        return known_answers(run)


KIND = Planted()
