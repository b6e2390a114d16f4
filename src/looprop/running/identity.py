"""Is a run the one that was begun? What its numbers depend on, compared name by name."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

NUMERICS = 2
"""Raised whenever looprop itself gives another number for the same model, text and options, beyond rounding. Then a run
that was begun before is not continued."""

LATER = ("numerics", "model.attention", "model.code", "model.configuration", "model.dtype", "model.preparation")
"""What the first manifests did not say yet."""
DATA = "spec.data"
"""The first manifests described all data sets of an experiment here; today's describe the one that is used."""


@dataclass(frozen=True)
class Comparison:
    """changed: what differs, with both values. unstated: what the earlier manifest is too old to say."""

    changed: tuple[str, ...]
    unstated: tuple[str, ...]


def compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> Comparison:
    """What is not, or not known to be, the same in two identities.

    >>> compare({"seed": 0}, {"seed": 1, "numerics": 1})
    Comparison(changed=('seed (was 0, is 1)',), unstated=('numerics',))
    """
    unstated = tuple(name for name in LATER if not _says(before, name) and _says(after, name))
    return Comparison(tuple(_differences(plain(before), plain(after), unstated)), unstated)


def plain(identity: Mapping[str, Any]) -> dict[str, Any]:
    """An identity as it comes back from a manifest."""
    data: dict[str, Any] = json.loads(json.dumps(identity))
    return data


def _says(identity: Any, name: str) -> bool:
    for key in name.split("."):
        if not isinstance(identity, Mapping) or key not in identity:
            return False
        identity = identity[key]
    return True


def _differences(before: Any, after: Any, unstated: tuple[str, ...], path: str = "") -> Iterator[str]:
    """What differs between two pieces of plain data, by name."""
    if path in unstated:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(after if path == DATA else {*before, *after}):
            yield from _differences(before.get(key), after.get(key), unstated, f"{path}.{key}" if path else key)
    elif before != after:
        yield f"{path} (was {_short(before)}, is {_short(after)})"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
