"""A run folder: a manifest, and the rows of finished examples in Parquet parts. It knows nothing of who computes them.

    manifest.json                    what is computed, from what, with what; every session that worked on it
    parts/00007-<sha256>.parquet     rows of some examples; the name holds the checksum of the content
    lock                             held by the process that writes

A part appears whole or not at all (written beside, synced, renamed), so a run can be killed at any moment.
"""

import contextlib
import errno
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from looprop.errors import DataError
from looprop.evaluation import parts, provenance
from looprop.evaluation.example import Row
from looprop.evaluation.lock import locked

SCHEMA, VERSION = "looprop.run", 1
DIGITS = 16  # of the checksum, in a part's name


class Store:
    """The rows of a run, example by example. `open_store` opens it for writing, `read_store` for reading."""

    def __init__(self, folder: Path, manifest: dict[str, Any], rows: dict[str, list[Row]]) -> None:
        self.folder, self.manifest = folder, manifest
        self._rows = rows

    def missing(self, examples: Iterable[str]) -> list[str]:
        """Those of the examples that have no rows yet, in order."""
        return [example for example in examples if example not in self._rows]

    def add(self, rows: Sequence[Row]) -> None:
        """Keep the rows of some examples; each example's rows must come together."""
        if not rows:
            return
        content = parts.to_bytes(rows)
        numbers = [int(path.name.partition("-")[0]) for path in (self.folder / "parts").glob("[0-9]*-*")]
        number = max(numbers, default=0) + 1
        self._write(self.folder / "parts" / f"{number:05d}-{hashlib.sha256(content).hexdigest()[:DIGITS]}.parquet", content)
        self._rows.update(_by_example(rows))

    def rows(self, examples: Iterable[str] | None = None) -> list[Row]:
        """The rows of these examples (all by default), in their order."""
        return [row for example in (self._rows if examples is None else examples) for row in self._rows[example]]

    def compact(self, examples: Iterable[str]) -> None:
        """Put all rows into one part. Killed halfway, an example may be in two parts, with the same values in both."""
        old = list((self.folder / "parts").glob("*.parquet"))
        if len(old) > 1:
            self.add(self.rows(examples))
            for path in old:
                path.unlink()

    def note(self, **entries: Any) -> None:
        """Put entries into the manifest and write it."""
        self.manifest.update(entries)
        self._write(self.folder / "manifest.json", (json.dumps(self.manifest, indent=1, allow_nan=False) + "\n").encode("ascii"))

    def finish(self) -> None:
        """Say in the manifest that this session came to its end."""
        *earlier, session = self.manifest["sessions"]
        self.note(sessions=[*earlier, {**session, "finished": provenance.now()}])

    def _write(self, path: Path, content: bytes) -> None:
        try:
            write_durably(path, content)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise DataError(
                    f"no space left to write {path}; the {len(self._rows)} examples finished before are safe: "
                    "make room and give the same command again, the run goes on from there"
                ) from error
            raise DataError(f"cannot write {path}: {error.strerror or error}") from error


def write_durably(path: Path, content: bytes) -> None:
    """Written beside, synced to the disk, then renamed: after a crash the file is there as a whole or not at all."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read_part(path: Path) -> list[Row] | None:
    """The rows of a part, or None if its content is not what its name says."""
    content = path.read_bytes()
    stated = path.stem.partition("-")[2]
    if not stated or hashlib.sha256(content).hexdigest()[:DIGITS] != stated:
        return None
    try:
        return parts.from_bytes(content)
    except (pa.ArrowException, OSError, ValueError):
        return None


def read_manifest(folder: str | Path) -> dict[str, Any]:
    """The manifest of a run folder."""
    path = Path(folder) / "manifest.json"
    try:
        data: dict[str, Any] = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise DataError(f"{folder} is not a run folder: it holds no manifest.json") from None
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read {path}: {error}") from error
    if not isinstance(data, dict) or data.get("schema") != SCHEMA or data.get("version") != VERSION:
        raise DataError(f"{path} is not a manifest of schema {SCHEMA!r} version {VERSION}")
    return data


def read_parts(folder: Path) -> tuple[dict[str, list[Row]], list[Path]]:
    """The rows of all whole parts by example, and the parts that are damaged."""
    rows: dict[str, list[Row]] = {}
    damaged = []
    for path in sorted((folder / "parts").glob("*.parquet")):
        found = read_part(path)
        if found is None:
            damaged.append(path)
        else:
            rows.update(_by_example(found))
    return rows, damaged


def read_store(folder: str | Path) -> Store:
    """A run, finished or not, for reading only."""
    place = Path(folder)
    manifest = read_manifest(place)
    rows, damaged = read_parts(place)
    if damaged:
        raise DataError(f"{damaged[0]} is damaged: give the command that made the run again, and its examples are computed anew")
    return Store(place, manifest, rows)


@contextmanager
def open_store(folder: str | Path, identity: Mapping[str, Any], **about: Any) -> Iterator[Store]:
    """Open a run folder for writing, new or to be continued.

    identity: what the numbers depend on, as plain data (spec, model, data, seeds). A folder that was begun with another identity is
        refused, with the names of what changed. about: more entries for the manifest.
    """
    place = Path(folder)
    try:
        (place / "parts").mkdir(parents=True, exist_ok=True)
        guard = locked(place / "lock")
        guard.__enter__()
    except OSError as error:
        raise DataError(f"cannot use {place} as a run folder: {error.strerror or error}") from error
    try:
        yield _opened(place, dict(identity), about)
    finally:
        guard.__exit__(None, None, None)


def _opened(place: Path, identity: dict[str, Any], about: dict[str, Any]) -> Store:
    identity = json.loads(json.dumps(identity))
    if (place / "manifest.json").exists():
        manifest = read_manifest(place)
        changed = list(_differences(manifest["identity"], identity))
        if changed:
            raise DataError(f"{place} holds another run; changed: {'; '.join(changed)}. Use another folder, or the same settings as before")
    else:
        if any((place / "parts").iterdir()):
            raise DataError(f"{place} holds parts but no manifest: use another folder")
        mark = provenance.fingerprint(identity)
        manifest = {"schema": SCHEMA, "version": VERSION, "fingerprint": mark, "identity": identity, "sessions": []}
    rows, damaged = read_parts(place)
    for path in damaged:
        path.replace(path.with_suffix(".damaged"))
    for path in (place / "parts").glob(".*.tmp"):  # left by a process that was killed
        path.unlink()
    store = Store(place, manifest, rows)
    session: dict[str, Any] = {"started": provenance.now(), "finished": None, "versions": provenance.versions()}
    session |= {"hardware": provenance.hardware(), "damaged": [path.name for path in damaged]}
    store.note(**about, sessions=[*manifest["sessions"], session])
    return store


def _differences(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """What differs between two pieces of plain data, by name."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            yield from _differences(before.get(key), after.get(key), f"{path}.{key}" if path else key)
    elif before != after:
        yield f"{path} (was {_short(before)}, is {_short(after)})"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _by_example(rows: Iterable[Row]) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["example"], []).append(row)
    return groups
