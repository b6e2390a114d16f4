"""`looprop.audit`: does an explanation depend on how the model is written?"""

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, get_args

import torch
from torch import Tensor, nn

from looprop.auditing.asking import Answer, ask_all, compare, mean_r
from looprop.auditing.checks import layers_from_the_end, residual, shift_input, shuffle
from looprop.auditing.defaults import CHECKED, METHODS, STAGES, steps
from looprop.auditing.precision import Precision, doubled, in_float64
from looprop.auditing.proof import Behaviour, behaviour, prove, rebound
from looprop.auditing.result import Attempt, Audit, Checks, Row
from looprop.auditing.rewrites.base import Model, Rewrite, make_rewrites
from looprop.auditing.rewrites.changes import undone
from looprop.auditing.rewrites.observing import observe
from looprop.auditing.spreading import spread
from looprop.errors import InputError, LoopropError, ModelError, UnknownNameError
from looprop.inputs.examples import Dataset
from looprop.methods.base import Method
from looprop.methods.registry import make_method
from looprop.models.adapter import Adapter
from looprop.models.subject import Subject, bind
from looprop.models.target import TargetLike
from looprop.models.tensor_module import TensorModule
from looprop.running.engines import Engine
from looprop.running.progress import progress_bar
from looprop.running.provenance import hardware, now, versions, weights_hash
from looprop.workbench import Features, Workbench

# What counts as the same explanation: the largest change, relative to the largest score, by the precision of the model.
TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-3}


def audit(
    m: Workbench | nn.Module | Callable[[Tensor], Tensor],
    texts: Dataset | Sequence[Any],
    methods: Sequence[str | Method] = METHODS,
    rewrites: Sequence[str | Rewrite] | None = None,
    *,
    target: TargetLike = None,
    features: Features = "token",
    truncation: bool = True,
    precision: Precision = "float64",
    checks: bool = True,
    engine: str | Engine = "local",
    title: str | None = None,
    progress: bool = False,
    advance: Callable[[str], None] | None = None,
) -> Audit:
    """Explain one function written in several ways, and see which methods notice.

    m: a workbench, or a module or function on tensors. texts: its inputs. rewrites: names (None: all) or own `Rewrite`
        objects.
    precision: "float64" works on a copy of the model that computes in float64 throughout; "model" on the model itself,
        as it is.
    engine: who computes: "local" is this process, "ray" a cluster, rewrite by rewrite.
    checks: run the sanity checks, too. title: says which inputs these are. advance: called with what comes next before
        every step.

    >>> def product(x):
    ...     return (x[:, 0] * x[:, 1]) * x[:, 2]
    >>> a = audit(product, [torch.tensor([2.0, 3.0, 4.0])], methods=["loo", "attnlrp"], rewrites=["reassociated"])
    >>> a.verdicts["loo"].word, a.verdicts["attnlrp"].word
    ('invariant', 'depends on the writing')
    """
    if precision not in get_args(Precision):
        raise UnknownNameError("precision", str(precision), get_args(Precision))
    chosen = _chosen(methods)
    planned = make_rewrites(rewrites)
    if not chosen:
        raise InputError("there are no methods to audit")
    adapter = m.adapter if isinstance(m, Workbench) else TensorModule(m)
    own_title, items = _items(texts)
    title = title or own_title
    with progress_bar(title, steps(len(planned), checks=checks), show=progress) as one_more:

        def step(what: str) -> None:
            one_more()
            if advance is not None:
                advance(what)

        start, processor, began = now(), time.process_time(), time.perf_counter()
        before = weights_hash(adapter.model)
        make = partial(
            _set_up,
            adapter,
            items,
            tuple(methods),
            precision=precision,
            target=target,
            features=features,
            truncation=truncation,
        )
        bench, account = make(), None
        subjects = bench.subjects
        step(planned[0].name if planned else "")
        if engine == "local":
            done = []
            for i, rewrite in enumerate(planned):
                done.append(bench.attempt(rewrite))
                step(planned[i + 1].name if i + 1 < len(planned) else "sanity checks" if checks else "")
            found = bench.checks(step) if checks else bench.base_checks()
        else:
            done, answered, account = spread(engine, make, planned, checks=checks, step=step)
            found = answered if answered is not None else bench.base_checks()
        if weights_hash(adapter.model) != before:
            raise ModelError(f"the audit has changed the weights of {adapter.name}: this is a fault of looprop")
    about: dict[str, Any] = {
        "model": adapter.name,
        "class": type(adapter.model).__name__,
        "parameters": sum(p.numel() for p in adapter.model.parameters()),
        "weights": before,
        "inputs": len(subjects),
        "checked_inputs": min(CHECKED, len(subjects)) if checks else 0,
        "inputs_hash": _inputs_hash(subjects),
        "features": features if isinstance(features, str) else "groups",
        "precision": precision,
        "computed_in": str(bench.dtype).removeprefix("torch."),
        "started": start,
        "seconds": round(time.perf_counter() - began, 1),
        "cpu_seconds": round(time.process_time() - processor, 1),
        "versions": versions(),
        "hardware": hardware(),
        "options": {name: method.options for name, method in chosen.items()},
    }
    if account is not None:
        about["engine"] = account
    attempts, rows = (attempt for attempt, _ in done), (row for _, own in done for row in own)
    return Audit(tuple(attempts), tuple(rows), tuple(found), title, bench.tolerance, about)


def _chosen(methods: Sequence[str | Method]) -> dict[str, Method]:
    return {method if isinstance(method, str) else method.name: make_method(method) for method in methods}


def _set_up(
    adapter: Adapter,
    items: Sequence[Any],
    methods: Sequence[str | Method],
    *,
    precision: Precision,
    target: TargetLike,
    features: Features,
    truncation: bool,
) -> "_Bench":
    work = in_float64(adapter) if precision == "float64" else adapter
    given = [doubled(item) for item in items] if precision == "float64" else items
    return _Bench(
        work,
        [bind(work, item, target=target, features=features, truncation=truncation) for item in given],
        _chosen(methods),
    )


class _Bench:
    """The model as it is, what it does and what every method says of it: what all rewrites are compared with."""

    def __init__(self, adapter: Adapter, subjects: list[Subject], methods: dict[str, Method]) -> None:
        self.adapter, self.subjects, self.methods = adapter, subjects, methods
        self.behaviour: list[Behaviour] = behaviour(subjects)
        self.dtype = self.behaviour[0].logits.dtype
        self.tolerance = TOLERANCE.get(self.dtype, TOLERANCE[torch.float32])
        self.observed = observe(adapter.model, self._run)
        self.model = Model(adapter.model, self._run, self.observed, self._sites())
        self.answers = ask_all(methods, subjects)

    def _run(self) -> None:
        with self.adapter.evaluating(), torch.enable_grad():
            subject = self.subjects[0]
            self.adapter.forward(subject.encoded.inputs, positions=subject.target.positions)

    def _sites(self) -> int | None:
        try:
            return self.adapter.attention_layers(self.subjects[0].encoded)
        except LoopropError:
            return None

    def _again(self) -> list[Subject]:
        return rebound(self.subjects, self.adapter.renewed())

    def attempt(self, rewrite: Rewrite) -> tuple[Attempt, list[Row]]:
        """Carry out one rewrite, prove it, and compare the explanations."""
        about: dict[str, Any] = {"rewrite": rewrite.name, "summary": rewrite.summary}
        with undone() as changes:
            try:
                places = rewrite.apply(self.model, changes)
                about |= {"places": tuple(places.changed), "unsupported": tuple(places.unsupported)}
                if not places.changed:
                    return Attempt(**about, status="nothing to change"), []
                proof = prove(self.behaviour, behaviour(self._again()))
            except Exception as error:  # models and own rewrites raise what they like
                return Attempt(
                    **about, status="refused", reason=f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
                ), []
            about |= {"logits": proof.logits, "gradient": proof.gradient}
            if not proof.holds:
                reason = (
                    f"it computes another function: logits differ by {proof.logits:.1e}, gradients by "
                    f"{proof.gradient:.1e}"
                )
                return Attempt(**about, status="refused", reason=f"{reason}, {proof.tolerance:.0e} is allowed"), []
            after = ask_all(self.methods, self._again())
        return Attempt(**about, status="applied"), [self._row(name, rewrite.name, after[name]) for name in self.methods]

    def _row(self, method: str, rewrite: str, after: Answer) -> Row:
        found = compare(self.answers[method], after, self.tolerance)
        if isinstance(found, str):
            return Row(method, rewrite, refused=found)
        return Row(method, rewrite, **asdict(found), loo_r=self._loo_r(after))

    def _loo_r(self, answer: Answer) -> float:
        return mean_r(self.answers["loo"], answer) if "loo" in self.answers else float("nan")

    def base_checks(self) -> list[Checks]:
        """What can be said without asking the methods again."""
        found = []
        for name, method in self.methods.items():
            answer = self.answers[name]
            if isinstance(answer, str):
                found.append(Checks(name, refused=answer))
            else:
                own = residual(self.subjects, answer)
                found.append(Checks(name, residual=own, complete=method.complete, loo_r=self._loo_r(answer)))
        return found

    def checks(self, step: Callable[[str], None]) -> list[Checks]:
        """The sanity checks of every method that answers at all, on the first inputs."""
        asked = {name: method for name, method in self.methods.items() if not isinstance(self.answers[name], str)}
        stages: dict[str, list[float]] = {name: [] for name in asked}
        layers = layers_from_the_end(self.observed)
        for stage in range(1, STAGES + 1):
            if layers:
                with undone() as changes:
                    shuffle(layers[: -(-len(layers) * stage // STAGES)], changes)
                    shuffled = ask_all(asked, self._again()[:CHECKED])
                for name in asked:
                    stages[name].append(mean_r(self._first(name), shuffled[name]))
            step("sanity checks")
        with undone() as changes:
            shifted = ask_all(asked, shift_input(self.adapter.renewed(), self.subjects[:CHECKED], changes))
        step("sanity checks")
        alone = ask_all(asked, self._again()[:CHECKED], batch=False)
        step("")
        return [self._checked(check, stages, shifted, alone) for check in self.base_checks()]

    def _first(self, method: str) -> Answer:
        """The answer on the inputs that are checked."""
        return self.answers[method][:CHECKED]

    def _checked(
        self, check: Checks, stages: dict[str, list[float]], shifted: dict[str, Answer], alone: dict[str, Answer]
    ) -> Checks:
        if check.refused:
            return check
        name = check.method
        shift, single = (compare(self._first(name), answer[name], self.tolerance) for answer in (shifted, alone))
        nothing = float("nan")
        return Checks(
            name,
            residual=check.residual,
            complete=check.complete,
            loo_r=check.loo_r,
            randomised=tuple(stages[name]),
            shifted=nothing if isinstance(shift, str) else shift.change,
            shifted_r=nothing if isinstance(shift, str) else shift.r,
            batched=nothing if isinstance(single, str) else single.change,
        )


def _items(texts: Dataset | Sequence[Any]) -> tuple[str, list[Any]]:
    if isinstance(texts, str):
        raise InputError("texts must be a Dataset or a list of inputs, got one text: put it into a list")
    if isinstance(texts, Dataset):
        title, items = texts.title, [example.text for example in texts]
    else:
        items = list(texts)
        title = "1 input" if len(items) == 1 else f"{len(items)} inputs"
    if not items:
        raise InputError("there are no inputs to audit with")
    return title, items


def _inputs_hash(subjects: Sequence[Subject]) -> str:
    total = hashlib.sha256()
    for subject in subjects:
        for name, value in sorted(subject.encoded.inputs.items()):
            total.update(f"{name}:{value.dtype}:{tuple(value.shape)}:".encode())
            total.update(value.detach().cpu().contiguous().numpy().tobytes())
    return total.hexdigest()
