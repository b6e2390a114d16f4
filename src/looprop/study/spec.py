"""Experiments as data: YAML of a few lines, validated, with a fingerprint."""

import os
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import yaml

from looprop.errors import DataError, UnknownNameError
from looprop.evaluation.setup import Setup
from looprop.running.provenance import fingerprint
from looprop.study.kinds import SPEC, experiment_text, get_kind, load_kind

PLANS = ("by-layer",)
METRICS = ("loo-r", "loo-r-no-special", "morf", "lerf", "delta")
"""Those of a specification that names none: the paper's."""
LONGEST_NAME = 100


@dataclass(frozen=True)
class DataSpec:
    """One data set of an experiment: the paper's model for it, which part of it, and what the curves remove.

    source: the data set that the texts are from, where it is not the name itself. template: each text stands in place
        of "{text}" in it.
    target: what is explained, a class or a contrast of two; by default the predicted class. skip: methods that it goes
        without. features: what gets a score ("token", "word", "sentence"), for kinds that take others than tokens.
        most_words: longer texts have no part.
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
    features: str = "token"
    most_words: int | None = None

    def __post_init__(self) -> None:
        for name in ("source", "split", "model", "form", "curve_features", "template", "features"):
            if not isinstance(getattr(self, name), str):
                raise DataError(f"{name} must be a text, got {getattr(self, name)!r}")
        for name in ("yardsticks", "skip"):
            _check_names(getattr(self, name), name)
        if self.template and self.template.count("{text}") != 1:
            raise DataError(f'a template must hold "{{text}}" once, got {self.template!r}')
        if self.most_words is not None and (type(self.most_words) is not int or self.most_words < 1):
            raise DataError(f"most_words must be an integer >= 1, got {self.most_words!r}")
        if isinstance(self.target, tuple) and len(self.target) != 2:
            raise DataError(f"target must be one class or a contrast of two, got {list(self.target)}")


@dataclass(frozen=True)
class Spec:
    """An experiment.

    kind: what is measured, and how: one of `looprop.study.kinds`, or the name of a folder that was loaded.
    plans: "by-layer" adds CP-LRP in the first k layers, the last k and one layer, for every k.
    seeds: how many networks are trained. cases: inputs that the kind makes itself, each of its own `Kind.case`.
    """

    name: str
    kind: str
    question: str
    methods: tuple[str, ...]
    metrics: tuple[str, ...] = METRICS
    data: Mapping[str, DataSpec] = field(default_factory=dict)
    plans: str = ""
    seeds: int = 1
    cases: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_name(self.name)
        for data in self.data:  # a file of texts may be named by its path
            if not data.isprintable():
                raise DataError(f"the name of a data set must be printable, got {data[:LONGEST_NAME]!r}")
        if not isinstance(self.question, str):
            raise DataError(f"question must be a text, got {self.question!r}")
        for name in ("methods", "metrics"):
            _check_names(getattr(self, name), name)
        kind = get_kind(str(self.kind))
        if self.plans and self.plans not in PLANS:
            raise UnknownNameError("plans", str(self.plans), PLANS)
        if isinstance(self.seeds, bool) or not isinstance(self.seeds, int) or self.seeds < 1:
            raise DataError(f"seeds must be an integer >= 1, got {self.seeds!r}")
        wanted, other = (self.data, self.cases) if kind.case is None else (self.cases, self.data)
        if other or not wanted:
            on = "data" if kind.case is None else "cases"
            raise DataError(f"an experiment of kind {self.kind!r} runs on {on} and nothing else")
        Setup(self.methods, self.metrics)  # raises for unknown methods and metrics
        for name, of_data in self.data.items():
            for method in of_data.skip:
                if method not in self.methods:
                    raise UnknownNameError(f"method to skip on {name}", method, self.methods)
        kind.check(self)

    def to_dict(self, *, data: str | None = None) -> dict[str, Any]:
        """Plain data for manifests; what is skipped, and how long texts may be, only where that is said, features only
        where they are no tokens.
        data: of this data set only: what is said of others is nothing that the numbers of a run depend on.
        """
        plain = asdict(self)
        if data is not None:
            plain["data"] = {data: plain["data"][data]}
        for of_data in plain["data"].values():
            for name, usual in (("skip", ()), ("features", "token"), ("most_words", None)):
                if of_data[name] == usual:
                    del of_data[name]
        return plain

    @property
    def fingerprint(self) -> str:
        """The same for the same experiment, however its file is laid out."""
        return fingerprint(self.to_dict())


def _check_name(name: Any) -> None:
    """It becomes a part of a folder's name, and that must stay inside the folder that it is for."""
    if not isinstance(name, str) or not name:
        raise DataError(f"the name of an experiment must be a text, got {name!r}: put it into quotes")
    if len(name) > LONGEST_NAME or not name.isprintable() or name.startswith(".") or set(name) & set("/\\:<>|?*"):
        raise DataError(
            f"the name of an experiment must be plain, at most {LONGEST_NAME} printable characters, none of them "
            f"one of / \\ : < > | ? *, and no dot in front, got {name[:LONGEST_NAME]!r}"
        )


def _check_names(names: Any, field_name: str) -> None:
    if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names):
        raise DataError(f"{field_name} must be a list of names, got {str(names)[:100]}")


def load_spec(experiment: str | Path) -> Spec:
    """An experiment by name, from a YAML file of one's own, or from a folder that holds its kind, which is loaded.

    A text without a slash is a name, so that nothing in the current folder is run by mistake.
    """
    if str(experiment).endswith((".yaml", ".yml")):
        return _read_spec(Path(experiment))
    if isinstance(experiment, Path) or {"/", os.sep} & {*experiment} or experiment in (".", ".."):
        load_kind(experiment)
        spec = _read_spec(Path(experiment) / SPEC)
        if spec.kind != Path(experiment).resolve().name:
            raise DataError(f"{Path(experiment) / SPEC} must be of the kind in its folder, got {spec.kind!r}")
        return spec
    return parse_spec(experiment_text(str(experiment)), where=f"{experiment}.yaml")


def _read_spec(path: Path) -> Spec:
    try:
        return parse_spec(path.read_text(encoding="utf-8"), where=str(path))
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise DataError(f"{path} is no experiment: it is not UTF-8") from None


def parse_spec(text: str, *, where: str) -> Spec:
    """A specification from YAML; unknown and missing fields are named."""
    try:
        raw = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise DataError(f"{where} is not YAML: {' '.join(str(error).split())[:200]}") from error
    values = _checked_fields(raw, Spec, where)
    values["data"] = _parts(values, "data", DataSpec, where)
    if case := get_kind(str(values["kind"])).case:
        values["cases"] = _parts(values, "cases", case, where)
    return Spec(**values)


def _parts(values: Mapping[str, Any], field_name: str, made: type, where: str) -> dict[str, Any]:
    """A field that maps names to parts of their own, each made of its fields."""
    parts = values.get(field_name) or {}
    if not isinstance(parts, Mapping):
        raise DataError(f"{where}: {field_name} must be a mapping from names, got {type(parts).__name__}")
    return {
        str(name): made(**_checked_fields(own, made, f"{where}: {field_name}.{name}")) for name, own in parts.items()
    }


def _checked_fields(raw: Any, made: type, where: str) -> dict[str, Any]:
    """The fields of a dataclass as YAML gives them, lists as tuples; unknown and missing ones raise."""
    if not isinstance(raw, Mapping):
        raise DataError(f"{where}: expected fields and their values, got {type(raw).__name__}")
    known = {f.name: f for f in fields(made)}
    for name in raw:
        if name not in known:
            raise UnknownNameError(f"field in {where}", str(name), known)
    needed = (name for name, f in known.items() if f.default is MISSING and f.default_factory is MISSING)
    missing = [name for name in needed if name not in raw]
    if missing:
        raise DataError(f"{where}: field {missing[0]!r} is missing")
    return {name: tuple(value) if isinstance(value, list) else value for name, value in raw.items()}
