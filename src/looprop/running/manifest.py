"""The manifest of a run folder: read, and held to its form, so that an edited one is refused in words."""

import json
from collections.abc import Mapping
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
