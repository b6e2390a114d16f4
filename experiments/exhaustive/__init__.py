"""Exhaustive: models of which the answer to every masking is known, so that both references, all curves and their
limits are exact; the paper's own model of SST among them.
"""

from functools import partial
from pathlib import Path

from looprop.errors import DataError
from looprop.running.missing import Work
from looprop.study import About, Grid, Job, JudgedClaim, Kind, Options, Run, Spec, Task

from .claims import exhaustive_claims
from .maskings import masked_models, maskings_hash, read_maskings
from .measuring import OWN, measure_sentence
from .tables import exhaustive_tables


class Exhaustive(Kind):
    """One task per model and sentence."""

    claims_title = "What was known before, tested on these numbers"

    def check(self, spec: Spec) -> None:
        if unknown := [name for name in spec.methods if name not in OWN]:
            raise DataError(f"an experiment on all maskings has the methods {', '.join(OWN)}, got {unknown[0]}")

    def job(self, spec: Spec, options: Options) -> Job:
        options.check_unused("model", "data", "loo_from", "references", because=f"{spec.name} has its own models")
        models = masked_models()
        sentences = [sentence for model in models for sentence in read_maskings(model)[: options.limit]]

        def prepare(folder: Path, *, progress: bool) -> Work:
            return partial(measure_sentence, spec.methods)

        tasks = [Task(f"{sentence.model}/{sentence.id}", sentence) for sentence in sentences]
        each = len(sentences) // len(models)
        title = f"all word maskings of {each} sentences of SST-2 test"
        about = About(f"{len(models)} models", "naopc", title, subset=options.limit is not None, examples=len(tasks))
        identity = {"spec": spec.to_dict(), "data": {"naopc": maskings_hash()}, "limit": options.limit}
        return Job(f"{spec.name}: {title}, {len(models)} models", tasks, prepare, identity, about)

    def tables(self, run: Run) -> list[Grid]:
        return exhaustive_tables(run)

    def claims(self, run: Run) -> list[JudgedClaim]:
        return exhaustive_claims(run)


KIND = Exhaustive()
