"""The manifest of a run folder: read, held to its form, and compared, so that another run is refused in words.

What the numbers of a run depend on is its identity, compared name by name.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from looprop.errors import DataError
from looprop.running.inside import check_file
from looprop.running.provenance import fingerprint

NAME = "manifest.json"
SCHEMA, VERSION = "looprop.run", 1
# What every manifest has; `run` and `unmarked` only those written since parts carry the name of their run.
FIELDS: Mapping[str, type] = {"fingerprint": str, "identity": dict, "sessions": list}
OPTIONAL: Mapping[str, type] = {"run": str, "unmarked": list}
OF_A_SESSION: Mapping[str, type | tuple[type, ...]] = {
    "damaged": list,
    "engine": dict,
    "failed": dict,
    "finished": (str, type(None)),
    "hardware": dict,
    "loo_from": dict,
    "started": str,
    "versions": dict,
}


def read_manifest(folder: str | Path) -> dict[str, Any]:
    """The manifest of a run folder."""
    path = Path(folder) / NAME
    try:
        check_file(path)
        data = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise DataError(f"{folder} is not a run folder: it holds no {NAME}") from None
    except DataError:
        raise
    except RecursionError:
        raise DataError(f"cannot read {path}: it is nested too deeply") from None
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read {path}: {error}") from error
    if not isinstance(data, dict) or data.get("schema") != SCHEMA or data.get("version") != VERSION:
        raise DataError(f"{path} is not a manifest of schema {SCHEMA!r} version {VERSION}")
    _check(data, path)
    return data


def _check(data: dict[str, Any], path: Path) -> None:
    for name in FIELDS:
        if name not in data:
            raise DataError(f"{path} says no {name}: it was edited, or another program wrote it")
    check_types(data, {**FIELDS, **OPTIONAL}, str(path))
    for i, session in enumerate(data["sessions"]):
        if not isinstance(session, dict):
            raise DataError(f"{path}: session {i + 1} must be a mapping, got {type(session).__name__}")
        check_types(session, OF_A_SESSION, f"{path}: session {i + 1}")
    if data["fingerprint"] != fingerprint(data["identity"]):
        raise DataError(
            f"{path}: the identity of the run is not the one that its fingerprint was made of, so it was edited. "
            "Restore it, or use another folder"
        )


def check_types(data: Mapping[str, Any], kinds: Mapping[str, type | tuple[type, ...]], where: str) -> None:
    """Raises for an entry that is there and of another type."""
    for name, kind in kinds.items():
        if name in data and not isinstance(data[name], kind):
            wanted = kind if isinstance(kind, type) else kind[0]
            raise DataError(f"{where}: {name} must be a {wanted.__name__}, got {type(data[name]).__name__}")


NUMERICS = 2
"""Raised whenever looprop itself gives another number for the same model, text and options, beyond rounding. Then a run
that was begun before is not continued."""

LATER = ("numerics", "model.attention", "model.code", "model.configuration", "model.dtype", "model.preparation")
"""What the first manifests did not say yet."""
DATA = "spec.data"
"""The first manifests described all data sets of an experiment here; today's describe the one that is used."""


@dataclass(frozen=True)
class IdentityChanges:
    """changed: what differs, with both values. unstated: what the earlier manifest is too old to say."""

    changed: tuple[str, ...]
    unstated: tuple[str, ...]


def compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> IdentityChanges:
    """What is not, or not known to be, the same in two identities.

    >>> compare({"seed": 0}, {"seed": 1, "numerics": 1})
    IdentityChanges(changed=('seed (was 0, is 1)',), unstated=('numerics',))
    """
    unstated = tuple(name for name in LATER if not _says(before, name) and _says(after, name))
    return IdentityChanges(tuple(_differences(plain(before), plain(after), unstated)), unstated)


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
