"""A run folder: a manifest, and the rows of finished examples in Parquet parts. It knows nothing of who computes them.

    manifest.json                    what is computed, from what, with what; every session that worked on it
    parts/00007-<sha256>.parquet     rows of some examples; the name holds the checksum of the content
    lock, lock.holder                held by the process that writes, and its name

A part appears whole or not at all (written beside, synced, renamed), so a run can be killed at any moment.
"""

import errno
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from looprop.errors import DataError
from looprop.files import HALF_WRITTEN, write_whole
from looprop.running import parts, provenance
from looprop.running.lock import locked
from looprop.running.parts import Row

SCHEMA, VERSION = "looprop.run", 1
DIGITS = 16  # of the checksum, in a part's name
LARGEST = 64 * 2**20  # bytes in memory of the rows that are put into one part


class Store:
    """The rows of a run, example by example. `open_store` opens it for writing, `read_store` for reading.

    In memory it holds only which part has which example: a run may be larger than that.
    """

    def __init__(self, folder: Path, manifest: dict[str, Any], where: dict[str, Path]) -> None:
        self.folder, self.manifest = folder, manifest
        self._where = where

    def missing(self, examples: Iterable[str]) -> list[str]:
        """Those of the examples that have no rows yet, in order."""
        return [example for example in examples if example not in self._where]

    def add(self, rows: Sequence[Row]) -> None:
        """Keep the rows of some examples; each example's rows must come together."""
        if not rows:
            return
        self._keep(parts.to_bytes(rows), {row["example"] for row in rows})

    def rows(self, examples: Iterable[str] | None = None) -> list[Row]:
        """The rows of these examples (all by default), in their order."""
        wanted = list(self._where if examples is None else examples)
        found: dict[str, list[Row]] = {}
        for path in dict.fromkeys(self._where[example] for example in wanted):
            own = {
                example: rows for example, rows in _by_example(_whole(path)).items() if self._where.get(example) == path
            }
            found.update(own)
        return [row for example in wanted for row in found[example]]

    def compact(self, examples: Iterable[str]) -> None:
        """Put the rows into one part, or several of a bounded size, in the order of the examples.

        Killed halfway, an example may be in two parts, with the same values in both.
        """
        old = sorted((self.folder / "parts").glob("*.parquet"))
        wanted = list(examples)
        count = max(1, math.ceil(sum(map(parts.memory, old)) / LARGEST))
        if len(old) <= count:
            return
        where, size = dict(self._where), math.ceil(len(wanted) / count)
        for start in range(0, len(wanted), size):
            window = wanted[start : start + size]
            places = {path: [e for e in window if where[e] == path] for path in old}
            tables = [parts.chosen(path, own) for path, own in places.items() if own]
            self._keep(parts.in_order(tables, window), window)
        for path in old:
            path.unlink()

    def _keep(self, content: bytes, examples: Iterable[str]) -> None:
        numbers = [int(path.name.partition("-")[0]) for path in (self.folder / "parts").glob("[0-9]*-*")]
        number = max(numbers, default=0) + 1
        path = self.folder / "parts" / f"{number:05d}-{hashlib.sha256(content).hexdigest()[:DIGITS]}.parquet"
        self._write(path, content)
        self._where.update(dict.fromkeys(examples, path))

    def note(self, **entries: Any) -> None:
        """Put entries into the manifest and write it."""
        self.manifest.update(entries)
        self._write(
            self.folder / "manifest.json", (json.dumps(self.manifest, indent=1, allow_nan=False) + "\n").encode("ascii")
        )

    def note_session(self, **entries: Any) -> None:
        """Put entries into what the manifest says of this session."""
        *earlier, session = self.manifest["sessions"]
        self.note(sessions=[*earlier, {**session, **entries}])

    def finish(self) -> None:
        """Say in the manifest that this session came to its end."""
        self.note_session(finished=provenance.now())

    def _write(self, path: Path, content: bytes) -> None:
        try:
            write_whole(path, content, durable=True)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise DataError(
                    f"no space left to write {path}; the {len(self._where)} examples finished before are safe: "
                    "make room and give the same command again, the run goes on from there"
                ) from error
            raise DataError(f"cannot write {path}: {error.strerror or error}") from error


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


def read_parts(folder: Path) -> tuple[dict[str, Path], list[Path]]:
    """Which whole part has the rows of which example, and the parts that are damaged."""
    where: dict[str, Path] = {}
    damaged = []
    for path in sorted((folder / "parts").glob("*.parquet")):
        found = read_part(path)
        if found is None:
            damaged.append(path)
        else:
            where.update((row["example"], path) for row in found)
    return where, damaged


def _whole(path: Path) -> list[Row]:
    found = read_part(path)
    if found is None:
        raise DataError(f"{path} was damaged while the run was open: give the same command again")
    return found


def read_store(folder: str | Path) -> Store:
    """A run, finished or not, for reading only."""
    place = Path(folder)
    manifest = read_manifest(place)
    where, damaged = read_parts(place)
    if damaged:
        raise DataError(
            f"{damaged[0]} is damaged: give the command that made the run again, and its examples are computed anew"
        )
    return Store(place, manifest, where)


@contextmanager
def open_store(
    folder: str | Path,
    identity: Mapping[str, Any],
    *,
    grows: Callable[[Mapping[str, Any]], bool] | None = None,
    **about: Any,
) -> Iterator[Store]:
    """Open a run folder for writing, new or to be continued.

    identity: what the numbers depend on, as plain data (spec, model, data, seeds). A folder that was begun with another
        identity is refused, with the names of what changed. grows: says of such an identity that it differs only in
        having fewer examples; then the run takes the new one and goes on. about: more entries for the manifest.
    """
    place = Path(folder)
    try:
        (place / "parts").mkdir(parents=True, exist_ok=True)
        guard = locked(place / "lock")
        guard.__enter__()
    except OSError as error:
        raise DataError(f"cannot use {place} as a run folder: {error.strerror or error}") from error
    try:
        yield _opened(place, dict(identity), grows, about)
    finally:
        guard.__exit__(None, None, None)


def _opened(
    place: Path, identity: dict[str, Any], grows: Callable[[Mapping[str, Any]], bool] | None, about: dict[str, Any]
) -> Store:
    identity = json.loads(json.dumps(identity))
    mark = provenance.fingerprint(identity)
    if (place / "manifest.json").exists():
        manifest = read_manifest(place)
        changed = list(_differences(manifest["identity"], identity))
        if changed and grows is not None and grows(manifest["identity"]):
            about = {**about, "identity": identity, "fingerprint": mark}
        elif changed:
            raise DataError(
                f"{place} holds another run; changed: {'; '.join(changed)}. Use another folder, or the same settings "
                "as before"
            )
    else:
        if any((place / "parts").iterdir()):
            raise DataError(f"{place} holds parts but no manifest: use another folder")
        manifest = {"schema": SCHEMA, "version": VERSION, "fingerprint": mark, "identity": identity, "sessions": []}
    where, damaged = read_parts(place)
    for path in damaged:
        path.replace(path.with_suffix(".damaged"))
    for pattern in (f"parts/.*{HALF_WRITTEN}", f".manifest.json.*{HALF_WRITTEN}"):
        for path in place.glob(pattern):  # left by a process that was killed
            path.unlink()
    store = Store(place, manifest, where)
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
