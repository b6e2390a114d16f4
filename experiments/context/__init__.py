"""Context (beyond the paper): which sentences of a prompt an answer comes from, under our methods and their rivals."""

import hashlib
from functools import partial
from pathlib import Path
from typing import Any

from looprop.errors import UnknownNameError
from looprop.models.loading import load_adapter
from looprop.running.missing import Work
from looprop.running.model_identity import model_identity
from looprop.study import About, Grid, Job, JudgedClaim, Kind, Options, Run, Spec
from looprop.study.kinds.texts import PAPER

from .claims import context_claims
from .measuring import GENERATED, AnswerTask, measure_answer
from .methods import RIVALS
from .questions import FILES, Questions, load_questions
from .tables import context_tables

GENERATED_SHARE = 5
"""Of one question in so many also the model's own answer is explained: it costs as much again."""


class Context(Kind):
    """One task per question and answer."""

    def check(self, spec: Spec) -> None:
        for name in spec.data:
            if name not in FILES:
                raise UnknownNameError("data set of questions", name, FILES)

    def job(self, spec: Spec, options: Options) -> Job:
        options.check_unused("loo_from", "references", because=f"{spec.name} computes its own leave-one-out")
        name = options.data or next(iter(spec.data))
        if name not in spec.data:
            raise UnknownNameError(f"data set of {spec.name}", name, spec.data)
        questions = load_questions(name, limit=options.limit, seed=options.seed)
        adapter = load_adapter(spec.data[name].model if options.model in (None, PAPER) else options.model)
        methods = (*spec.methods, *RIVALS)

        def identity(questions: Questions, limit: int | None) -> dict[str, Any]:
            held = {"name": name, "hash": questions.hash, "examples": len(questions), "of": questions.total}
            model, seed = model_identity(adapter), options.seed
            return {"spec": spec.to_dict(data=name), "methods": list(methods), "model": model, "seed": seed} | {
                "data": held,
                "limit": limit,
            }

        def prepare(folder: Path, *, progress: bool) -> Work:
            return partial(measure_answer, adapter, methods, options.seed)

        def limited(limit: int) -> dict[str, Any]:
            return identity(load_questions(name, limit=limit, seed=options.seed), limit)

        title = f"{spec.name}: {questions.title}, {adapter.name}"
        about = About(adapter.name, name, questions.title, questions.subset, len(questions))
        return Job(title, _tasks(questions), prepare, identity(questions, options.limit), about, limited)

    def tables(self, run: Run) -> list[Grid]:
        return context_tables(run)

    def claims(self, run: Run) -> list[JudgedClaim]:
        return context_claims(run)


def _tasks(questions: Questions) -> list[AnswerTask]:
    tasks = []
    for question in questions:
        tasks.append(AnswerTask(question.id, question))
        if also_generated(question.id):
            tasks.append(AnswerTask(f"{question.id}/{GENERATED}", question, answer=GENERATED))
    return tasks


def also_generated(id: str) -> bool:
    """One question in five, whichever are drawn beside it."""
    return hashlib.sha256(id.encode()).digest()[0] % GENERATED_SHARE == 0


KIND = Context()
