"""Experiments as data: YAML of a few lines, validated, with a fingerprint."""

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from looprop.errors import DataError, UnknownNameError
from looprop.evaluation.setup import METRICS, Setup
from looprop.running.provenance import fingerprint

EXPERIMENTS = ("bilinear", "softmax", "baselines", "layers", "remedy")
KINDS = ("networks", "toys", "texts")
PLANS = ("by-layer",)


@dataclass(frozen=True)
class DataSpec:
    """One data set of an experiment: the paper's model for it, which part of it, and what the curves remove.

    source: the data set that the texts are from, where it is not the name itself. template: each text stands in place
        of "{text}" in it.
    target: what is explained, a class or a contrast of two; by default the predicted class. skip: methods that it goes
        without.
    """

    source: str = ""
    split: str = ""
    model: str = ""
    form: str = "glue"
    curve_features: str = "token"
    yardsticks: tuple[str, ...] = ()
    template: str = ""
    target: str | tuple[str, str] | None = None
    skip: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.template and self.template.count("{text}") != 1:
            raise DataError(f'a template must hold "{{text}}" once, got {self.template!r}')
        if isinstance(self.target, tuple) and len(self.target) != 2:
            raise DataError(f"target must be one class or a contrast of two, got {list(self.target)}")


@dataclass(frozen=True)
class Toy:
    """One attention row over scalar tokens: weights softmax(key * x), values value_i * x_i + bias."""

    inputs: tuple[float, ...]
    value: tuple[float, ...]
    key: float = 1.0
    bias: float = 0.0


@dataclass(frozen=True)
class Spec:
    """An experiment.

    kind: "texts" measures methods on a data set of texts, "networks" the MNIST networks of RQ1, "toys" the cases of
        section 3.2.
    plans: "by-layer" adds CP-LRP in the first k layers, the last k and one layer, for every k.
    seeds: how many networks are trained.
    """

    name: str
    kind: str
    question: str
    methods: tuple[str, ...]
    metrics: tuple[str, ...] = METRICS
    data: Mapping[str, DataSpec] = field(default_factory=dict)
    plans: str = ""
    seeds: int = 1
    cases: Mapping[str, Toy] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UnknownNameError("kind of experiment", str(self.kind), KINDS)
        if self.plans and self.plans not in PLANS:
            raise UnknownNameError("plans", str(self.plans), PLANS)
        if isinstance(self.seeds, bool) or not isinstance(self.seeds, int) or self.seeds < 1:
            raise DataError(f"seeds must be an integer >= 1, got {self.seeds!r}")
        if (self.kind == "toys") is bool(self.data) or (self.kind == "toys") is not bool(self.cases):
            raise DataError(
                f"an experiment of kind {self.kind!r} runs on {'cases' if self.kind == 'toys' else 'data'} and nothing "
                "else"
            )
        Setup(self.methods, self.metrics)  # raises for unknown methods and metrics
        for name, of_data in self.data.items():
            if of_data.skip and self.kind != "texts":
                raise DataError(f"skip is for experiments of kind 'texts', got it on {name}")
            for method in of_data.skip:
                if method not in self.methods:
                    raise UnknownNameError(f"method to skip on {name}", method, self.methods)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for manifests; what is skipped only where something is."""
        found = asdict(self)
        for of_data in found["data"].values():
            if not of_data["skip"]:
                del of_data["skip"]
        return found

    @property
    def fingerprint(self) -> str:
        """The same for the same experiment, however its file is laid out."""
        return fingerprint(self.to_dict())


def load_spec(experiment: str | Path) -> Spec:
    """An experiment by name, or from a YAML file of one's own."""
    if str(experiment).endswith((".yaml", ".yml")):
        path = Path(experiment)
        try:
            return parse_spec(path.read_text(encoding="utf-8"), where=str(path))
        except OSError as error:
            raise DataError(f"cannot read {path}: {error.strerror}") from error
    if experiment not in EXPERIMENTS:
        raise UnknownNameError("experiment", str(experiment), EXPERIMENTS)
    text = files("looprop.study").joinpath("specs", f"{experiment}.yaml").read_text(encoding="utf-8")
    return parse_spec(text, where=f"{experiment}.yaml")


def parse_spec(text: str, *, where: str) -> Spec:
    """A specification from YAML; unknown and missing fields are named."""
    try:
        raw = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise DataError(f"{where} is not YAML: {error}") from error
    values = _checked(raw, Spec, where)
    values["data"] = {
        name: DataSpec(**_checked(own, DataSpec, f"{where}: data.{name}"))
        for name, own in _mapping(values, "data", where)
    }
    values["cases"] = {
        name: Toy(**_checked(own, Toy, f"{where}: cases.{name}")) for name, own in _mapping(values, "cases", where)
    }
    return Spec(**values)


def _mapping(values: Mapping[str, Any], name: str, where: str) -> list[tuple[str, Any]]:
    found = values.get(name) or {}
    if not isinstance(found, Mapping):
        raise DataError(f"{where}: {name} must be a mapping from names, got {type(found).__name__}")
    return [(str(key), value) for key, value in found.items()]


def _checked(raw: Any, kind: type, where: str) -> dict[str, Any]:
    if not isinstance(raw, Mapping):
        raise DataError(f"{where}: expected fields and their values, got {type(raw).__name__}")
    known = {f.name: f for f in fields(kind)}
    for name in raw:
        if name not in known:
            raise UnknownNameError(f"field in {where}", str(name), known)
    needed = (name for name, f in known.items() if f.default is MISSING and f.default_factory is MISSING)
    missing = [name for name in needed if name not in raw]
    if missing:
        raise DataError(f"{where}: field {missing[0]!r} is missing")
    return {name: tuple(value) if isinstance(value, list) else value for name, value in raw.items()}
