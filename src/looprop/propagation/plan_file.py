"""A plan as a file, as `lrp[plan=FILE]` takes it.

    plan:                   options of `Plan`; what is not named is at its default
      attention: {1: cp, 2: cp}
      temperature: 2.0
    readout: word           or sum
    about: ...              anything about it; not read

It is plain YAML: nothing in it is run, and rules of one's own, which are functions, have no place in it.
"""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, NamedTuple

import yaml

from looprop.errors import DataError, PlanError, UnknownNameError
from looprop.propagation.plan import Plan

Readout = Literal["word", "sum"]
LARGEST = 100_000  # characters; a plan has a few lines
# Options that are written as plain values; own rules are functions.
OPTIONS = tuple(f.name for f in fields(Plan) if f.init and f.name != "rules")
KEYS = ("plan", "readout", "about")


class PlanFile(NamedTuple):
    """What a plan file says."""

    plan: Plan
    readout: Readout


def read_plan(path: str | Path) -> PlanFile:
    """The plan of a file; whatever is unknown in it, or of the wrong kind, is named."""
    place = Path(path)
    try:
        with place.open(encoding="utf-8") as file:
            text = file.read(LARGEST + 1)
    except UnicodeDecodeError:
        raise DataError(f"{place} is no plan: it is not UTF-8") from None
    except OSError as error:
        raise DataError(f"cannot read the plan {place}: {error.strerror}") from error
    if len(text) > LARGEST:
        raise DataError(f"{place} is no plan: it has more than {LARGEST:,} characters")
    return parse_plan(text, where=str(place))


def parse_plan(text: str, *, where: str = "plan") -> PlanFile:
    """The same of the text itself.

    >>> parse_plan("plan: {attention: {4: cp}, otherwise: attnlrp}").plan.rule(4)
    'cp'
    """
    try:
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text, Loader=yaml.SafeLoader)):
            raise DataError(f"{where}: references (*name) have no place in a plan")
        found = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{where} is not YAML: {' '.join(str(error).split())[:200]}") from error
    if not isinstance(found, Mapping) or "plan" not in found:
        raise DataError(f"{where} must hold the key 'plan' with the options of a plan")
    _check_names(found, KEYS, "key of a plan file", where)
    options = found["plan"] or {}
    if not isinstance(options, Mapping):
        raise DataError(f"{where}: 'plan' must hold options by name, got {type(options).__name__}")
    _check_names(options, OPTIONS, "option of a plan", where)
    readout = found.get("readout", "word")
    if readout not in ("word", "sum"):
        raise UnknownNameError(f"readout in {where}", str(readout), ("word", "sum"))
    try:
        return PlanFile(Plan(**_taken(options, where)), readout)
    except (PlanError, UnknownNameError) as error:
        raise PlanError(f"{where}: {error}") from error


def _check_names(found: Mapping[Any, Any], known: tuple[str, ...], kind: str, where: str) -> None:
    for name in found:
        if name not in known:
            raise UnknownNameError(f"{kind} in {where}", str(name), known)


def _taken(options: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Values as `Plan` takes them."""
    values = dict(options)
    if "allow" in values:
        if not isinstance(values["allow"], list) or not all(isinstance(name, str) for name in values["allow"]):
            raise DataError(f"{where}: 'allow' must be a list of operations, got {values['allow']!r}")
        values["allow"] = frozenset(values["allow"])
    for name, value in values.items():
        if isinstance(value, (list, Mapping)) and name != "attention":
            raise DataError(f"{where}: {name!r} must be one value, got {value!r}")
    if isinstance(values.get("attention"), list):
        raise DataError(f"{where}: 'attention' must be a rule, or rules by layer, got a list")
    return values
