"""`looprop.audit`: does an explanation depend on how the model is written?

Ask the methods about the model as it is (`original`), then about each rewrite of it, and return everything as one
`Audit`, with its manifest. The parts of an audit, every rewrite and the sanity checks, may be computed by an engine.
All are compared with the `Original`. In this process it is made once; it is not sent to others, where each process
makes its own from the same setup and so gets the same numbers.
"""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from torch import Tensor, nn

from looprop.auditing.catalogue import CHECKED, steps
from looprop.auditing.original import SANITY_CHECKS, AuditPrecision, AuditSetup, Original, Step, Trial, make_methods
from looprop.auditing.result import Attempt, Audit, Checks
from looprop.auditing.rewrites.base import Rewrite, make_rewrites
from looprop.errors import ClusterError, InputError, ModelError, ShardError, UnknownNameError
from looprop.inputs.examples import Dataset
from looprop.methods.base import Method
from looprop.methods.registry import CATALOGUE
from looprop.models.cutting import cut_of
from looprop.models.features import FeaturesLike
from looprop.models.loading import adapt_module
from looprop.models.target import TargetLike
from looprop.progress import progress_bar
from looprop.running.engines import Engine, Sharded, get_engine
from looprop.running.provenance import hardware, now, versions, weights_hash
from looprop.workbench import Workbench


def audit(
    m: Workbench | nn.Module | Callable[[Tensor], Tensor],
    texts: Dataset | Sequence[Any],
    methods: Sequence[str | Method] | None = None,
    rewrites: Sequence[str | Rewrite] | None = None,
    *,
    target: TargetLike = None,
    features: FeaturesLike = "token",
    truncation: bool = True,
    precision: AuditPrecision = "float64",
    checks: bool = True,
    engine: str | Engine = "local",
    title: str | None = None,
    progress: bool = False,
    advance: Callable[[str], None] | None = None,
) -> Audit:
    """Explain one function written in several ways, and see which methods notice.

    m: a workbench, or a module or function on tensors. texts: its inputs.
    methods: names, with options in brackets, or `Method` objects; None: all.
    target, features, truncation: as in `Workbench.explain`.
    rewrites: names (None: all) or own `Rewrite` objects.
    precision: "float64" works on a copy of the model that computes in float64 throughout; "model" on the model itself,
        as it is.
    engine: who computes: "local" is this process, "ray" a cluster, rewrite by rewrite.
    checks: run the sanity checks, too. title: says which inputs these are.
    progress: show a bar. advance: called with what comes next before every step.

    >>> import torch
    >>> def product(x):
    ...     return (x[:, 0] * x[:, 1]) * x[:, 2]
    >>> a = audit(product, [torch.tensor([2.0, 3.0, 4.0])], methods=["loo", "attnlrp"], rewrites=["reassociated"])
    >>> a.verdicts["loo"].word, a.verdicts["attnlrp"].word
    ('invariant', 'depends on the writing')
    """
    # All of them coarse where they can be: whether they depend on the writing does not depend on how fine they are.
    asked = [one.coarse or one.example or one.name for one in CATALOGUE.values()] if methods is None else methods
    if precision not in get_args(AuditPrecision):
        raise UnknownNameError("precision", str(precision), get_args(AuditPrecision))
    chosen, planned = make_methods(asked), make_rewrites(rewrites)
    if not chosen:
        raise InputError("there are no methods to audit")
    adapter = m.adapter if isinstance(m, Workbench) else adapt_module(m)
    own_title, items = _items(texts)
    title = title or own_title
    setup = AuditSetup(adapter, items, tuple(asked), precision, target, features, truncation)
    with progress_bar(title, steps(len(planned), checks=checks), show=progress) as one_more:

        def step(what: str) -> None:
            one_more()
            if advance is not None:
                advance(what)

        manifest = Manifest(setup, chosen)
        original = setup.original()
        step(planned[0].name if planned else "")
        trials, checked, account = compute(engine, setup, original, planned, checks=checks, step=step)
    return Audit(
        tuple(trial.attempt for trial in trials),
        tuple(effect for trial in trials for effect in trial.effects),
        checked if checks else original.base_checks(),
        title,
        original.tolerance,
        manifest.about(original, checks=checks, account=account),
    )


def _items(texts: Dataset | Sequence[Any]) -> tuple[str, list[Any]]:
    """The title of the inputs, and the inputs."""
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


class Manifest:
    """The weights and the time before anything is computed, and the manifest afterwards."""

    def __init__(self, setup: AuditSetup, methods: Mapping[str, Method]) -> None:
        self._setup = setup
        self._options = {name: method.options for name, method in methods.items()}
        self._started, self._processor, self._clock = now(), time.process_time(), time.perf_counter()
        self._weights = weights_hash(setup.adapter.model)

    def about(self, original: Original, *, checks: bool, account: Mapping[str, Any] | None) -> dict[str, Any]:
        """The manifest as plain data; weights that have changed raise. account: which machines computed."""
        adapter, features, subjects = self._setup.adapter, self._setup.features, original.subjects
        if weights_hash(adapter.model) != self._weights:
            raise ModelError(f"the audit has changed the weights of {adapter.name}: this is a fault of looprop")
        inputs = hashlib.sha256()
        for subject in subjects:
            for name, value in sorted(subject.encoded.inputs.items()):
                inputs.update(f"{name}:{value.dtype}:{tuple(value.shape)}:".encode())
                inputs.update(value.detach().cpu().contiguous().numpy().tobytes())
        about: dict[str, Any] = {
            "model": adapter.name,
            "class": type(adapter.model).__name__,
            "parameters": sum(p.numel() for p in adapter.model.parameters()),
            "weights": self._weights,
            "inputs": len(subjects),
            "checked_inputs": min(CHECKED, len(subjects)) if checks else 0,
            "inputs_hash": inputs.hexdigest(),
            "features": features if isinstance(features, str) else "groups",
            "precision": self._setup.precision,
            "computed_in": str(original.dtype).removeprefix("torch."),
            "started": self._started,
            "seconds": round(time.perf_counter() - self._clock, 1),
            "cpu_seconds": round(time.process_time() - self._processor, 1),
            "versions": versions(),
            "hardware": hardware(),
            "options": self._options,
        }
        if cut := cut_of([subject.encoded.cut for subject in subjects]):
            about["truncated"] = str(cut)
        return about if account is None else {**about, "engine": account}


@dataclass(frozen=True)
class AuditPart:
    """One rewrite, or the sanity checks. id: its name, by which an engine reports a failure."""

    id: str
    rewrite: Rewrite | None


Done = Trial | tuple[Checks, ...]
"""A finished part: the trial of a rewrite, or the checks of every method."""


@dataclass
class Desk:
    """Computes parts of an audit."""

    setup: AuditSetup
    original: Original | None = None
    step: Step = lambda what: None

    def __call__(self, part: AuditPart) -> Done:
        if self.original is None:
            self.original = self.setup.original()
        if part.rewrite is None:
            return self.original.checks(self.step)
        return self.original.attempt(part.rewrite)

    def __reduce__(self) -> tuple[Any, ...]:
        return Desk, (self.setup,)


def compute(
    engine: str | Engine,
    setup: AuditSetup,
    original: Original,
    rewrites: Sequence[Rewrite],
    *,
    checks: bool,
    step: Step,
) -> tuple[list[Trial], tuple[Checks, ...], dict[str, Any] | None]:
    """Compute all parts of an audit on an engine. A rewrite that fails again and again is refused.

    Trials come in the order of the rewrites; then the checks, none where none were wanted; then which machines
    computed, if the engine reports that.
    """
    parts = [AuditPart(rewrite.name, rewrite) for rewrite in rewrites]
    parts += [AuditPart(SANITY_CHECKS, None)] if checks else []
    here = engine == "local"
    desk = Desk(setup, original, step) if here else Desk(setup, original)
    # Elsewhere the checks begin first, since they take longest.
    results = get_engine(engine)(desk, parts if here else parts[::-1])
    trials: dict[str, Trial] = {}
    checked: tuple[Checks, ...] = ()
    following = iter([*(part.id for part in parts[1:]), ""])
    try:
        for done in results:
            if isinstance(done, Trial):
                trials[done.attempt.rewrite] = done
                step(next(following) if here else done.attempt.rewrite)
            else:
                checked = done
                if not here:
                    step(SANITY_CHECKS)
    except ShardError as error:
        if SANITY_CHECKS in error.failed:
            reason = f"the sanity checks failed {error.attempts} times: {error.failed[SANITY_CHECKS]}"
            raise ClusterError(reason) from error
        summaries = {rewrite.name: rewrite.summary for rewrite in rewrites}
        for name, reason in error.failed.items():
            trials[name] = Trial(Attempt(name, summaries[name], status="refused", reason=reason))
    account = results.account() if isinstance(results, Sharded) else None
    return [trials[rewrite.name] for rewrite in rewrites], checked, account
