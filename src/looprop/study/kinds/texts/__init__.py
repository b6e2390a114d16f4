"""Texts (RQ2 and RQ3): every method, or plans layer by layer, on every text of a data set, with one model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from looprop.errors import DataError, InputError, UnknownNameError
from looprop.evaluation.example import Task, evaluate_example
from looprop.evaluation.references import KnownReference, known_loo
from looprop.evaluation.setup import Setup
from looprop.inputs import load_dataset
from looprop.inputs.examples import Dataset, make_dataset
from looprop.inputs.files import read_texts
from looprop.models.adapter import Adapter
from looprop.models.loading import load_adapter
from looprop.running.manifest import compare
from looprop.running.missing import Work
from looprop.running.model_identity import model_identity
from looprop.running.store import read_store
from looprop.study.claims import JudgedClaim
from looprop.study.kind import About, Job, Kind, Options, Picture
from looprop.study.kinds.texts.claims import baseline_claims, layer_claims
from looprop.study.kinds.texts.layers import layer_plans, measure_with_entropy
from looprop.study.kinds.texts.tables import layer_tables, text_tables
from looprop.study.report.grids import Grid
from looprop.study.run import Run
from looprop.study.spec import DataSpec, Spec

PAPER = "paper"
"""As a model's name: the one that the paper used for this data set."""


@dataclass(frozen=True)
class TextSource:
    """Where texts come from, and what the experiment says of them, under the name of which data set.

    file: is the name that of a file?
    """

    name: str
    entry: str
    settings: DataSpec
    file: bool

    def load(self, *, limit: int | None, seed: int) -> Dataset:
        """The texts, or `limit` of them drawn by `seed`, each in its template."""
        own = self.settings
        if own.most_words is not None:
            whole = replace(self, settings=replace(own, most_words=None, template="")).load(limit=None, seed=seed)
            short = [example for example in whole if len(example.text.split()) <= own.most_words]
            split = f"{whole.split} of at most {own.most_words} words"
            data = make_dataset(self.name, split, short, labels=whole.labels, limit=limit, seed=seed)
        elif self.file:
            data = read_texts(self.name, limit=limit, seed=seed)
        else:
            data = load_dataset(own.source or self.name, split=own.split or None, form=own.form, limit=limit, seed=seed)
            data = replace(data, name=self.name)
        if not own.template:
            return data
        return replace(data, examples=tuple(replace(e, text=own.template.replace("{text}", e.text)) for e in data))


def choose_source(spec: Spec, wanted: str | None) -> TextSource:
    """The data set of that name, by default the first; a file of one's own texts takes the first one's settings."""
    first = next(iter(spec.data))
    name = wanted or first
    if name in spec.data:
        return TextSource(name, name, spec.data[name], file=bool(Path(name).suffix))
    if Path(name).suffix or Path(name).exists():
        return TextSource(name, first, spec.data[first], file=True)
    raise UnknownNameError(f"data set of {spec.name}", name, spec.data)


def layers_of(adapter: Adapter, data: Dataset) -> int:
    """Of the first text that the model can read: one that it cannot is a row with an error later."""
    refused: Exception | None = None
    for text in data.texts:
        try:
            return adapter.attention_layers(adapter.encode(text, truncation=True))
        except Exception as error:
            refused = refused or error
    raise InputError(f"no text of {data.title} can be explained; the first error: {refused}") from refused


def data_identity(data: Dataset, limit: int | None) -> dict[str, Any]:
    """What an identity says of the data."""
    return {
        "data": {"name": data.name, "split": data.split, "hash": data.hash, "examples": len(data), "of": data.total},
        "limit": limit,
    }


def _taken_over(folder: Path, fixed: Mapping[str, Any]) -> dict[str, KnownReference]:
    """Leave-one-out of another run, which must have had the same model and the same way to choose and remove."""
    run = read_store(folder)
    before = run.manifest["identity"]
    if "model" not in before:
        raise InputError(f"leave-one-out of {folder} cannot be taken over: that run is not of a model on texts")
    # What an older run does not say is not missed here: some of its values are computed again.
    if changed := compare({"model": before["model"]}, {"model": fixed["model"]}).changed:
        raise InputError(
            f"leave-one-out of {folder} cannot be taken over: that run is of {run.manifest.get('model')}, with other "
            f"weights or another tokenizer or configuration: {'; '.join(changed)}"
        )
    for name in ("removal", "target", "truncation"):
        own, other = fixed["setup"][name], before.get("setup", {}).get(name)
        if own != other:
            raise InputError(
                f"leave-one-out of {folder} cannot be taken over: its {name} was {other}, here it is {own}"
            )
    known = known_loo(run.rows())
    if not known:
        raise InputError(f"{folder} holds no leave-one-out that could be taken over")
    return known


BASELINES, LAYERS = "baselines", "layers"
"""The paper's own two experiments on texts: what it claims is about these, and the second has tables of its own."""


class Texts(Kind):
    """One task per text."""

    evaluates = True

    def check(self, spec: Spec) -> None:
        for name, of_data in spec.data.items():
            if of_data.features != "token":
                raise DataError(f"features are for experiments of kind 'truths', got {of_data.features!r} on {name}")
            # This raises for what nobody can remove.
            Setup(spec.methods, spec.metrics, curve_features=of_data.curve_features)

    def job(self, spec: Spec, options: Options) -> Job:
        options.check_unused("references", because=f"{spec.name} compares with leave-one-out alone")
        source, seed = choose_source(spec, options.data), options.seed
        data, settings = source.load(limit=options.limit, seed=seed), source.settings
        adapter = load_adapter(settings.model if options.model == PAPER else options.model)
        layers = layers_of(adapter, data)
        plans = layer_plans(layers) if spec.plans else ()
        methods = (*(method for method in spec.methods if method not in settings.skip), *plans, *settings.yardsticks)
        setup = Setup(methods, spec.metrics, curve_features=settings.curve_features, target=settings.target, seed=seed)
        of_model = {"setup": setup.to_dict(), "model": model_identity(adapter), "seed": seed}
        fixed = {"spec": spec.to_dict(data=source.entry), **of_model}

        def limited(limit: int) -> dict[str, Any]:
            return {**fixed, **data_identity(source.load(limit=limit, seed=seed), limit)}

        def prepare(folder: Path, *, progress: bool) -> Work:
            return partial(measure_with_entropy if spec.plans else evaluate_example, adapter, setup=setup)

        known = _taken_over(options.loo_from, fixed) if options.loo_from is not None else {}
        tasks = [Task(example.id, example.text, loo=known.get(example.id)) for example in data]
        title = f"{spec.name}: {data.title}, {adapter.name}"
        about = About(adapter.name, source.name, data.title, data.subset, len(data), layers)
        return Job(title, tasks, prepare, {**fixed, **data_identity(data, options.limit)}, about, limited)

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
