"""A run folder: a manifest, and the rows of finished examples in Parquet parts. It knows nothing of who computes them.

    manifest.json                    what is computed, from what, with what; every session that worked on it
    parts/00007-<sha256>.parquet     rows of some examples; the name holds the checksum of the content
    lock, lock.holder                held by the process that writes, and its name

A part appears whole or not at all (written beside, synced, renamed), so a run can be killed at any moment. Whoever
reads meanwhile, and finds that a part has gone, looks again.
"""

import errno
import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from looprop.errors import DataError
from looprop.files import write_whole
from looprop.running import parts, provenance
from looprop.running.inside import check_file
from looprop.running.manifest import NAME, read_manifest
from looprop.running.part_files import FOLDER, Foreign, Found, list_parts, part_name, read_part, read_parts
from looprop.running.parts import Row

LARGEST = 64 * 2**20  # bytes in memory of the rows that are put into one part
LOOKS = 50  # how often a reader looks again when parts go while it reads
PAUSE = 0.02  # seconds between two looks


T = TypeVar("T")


class Store:
    """The rows of a run, example by example. `open_store` opens it for writing, `read_store` for reading.

    In memory it holds only which part has which example: a run may be larger than that.
    """

    def __init__(
        self, folder: Path, manifest: dict[str, Any], found: Found, to_note: Mapping[str, Any] | None = None
    ) -> None:
        self.folder, self.manifest = folder, manifest
        self.found = found
        # What the manifest says as soon as something is added to the run, and not before.
        self._to_note = dict(to_note or {})

    def missing(self, examples: Iterable[str], *, retry: bool = False) -> list[str]:
        """Those of the examples that have no rows yet, in order; with `retry` also those that failed."""
        have = self.found.where.keys() - (self.found.failed if retry else ())
        return [example for example in examples if example not in have]

    def add(self, rows: Sequence[Row]) -> None:
        """Keep the rows of some examples; each example's rows must come together."""
        if not rows:
            return
        if self._to_note:
            self.note(**self._to_note)
            self._to_note = {}
        examples = {row["example"] for row in rows}
        self._keep(parts.to_bytes(rows, self._run), examples)
        self.found.failed -= examples
        self.found.failed |= {row["example"] for row in rows if row.get("error")}

    def rows(self, examples: Iterable[str] | None = None) -> list[Row]:
        """The rows of these examples (all by default), in their order."""
        wanted = None if examples is None else list(examples)
        return _steadily(lambda: self._rows(wanted), self._look_again)

    def _rows(self, examples: list[str] | None) -> list[Row]:
        where = self.found.where
        wanted = list(where) if examples is None else examples
        found: dict[str, list[Row]] = {}
        for path in dict.fromkeys(where[example] for example in wanted):
            read = read_part(path, self.manifest.get("run"), self.manifest.get("unmarked", ()))
            if read is None:
                raise DataError(f"{path} was damaged while the run was open: give the same command again")
            for row in read[0]:
                if where.get(row["example"]) == path:
                    found.setdefault(row["example"], []).append(row)
        return [row for example in wanted for row in found[example]]

    def _look_again(self) -> None:
        self.manifest = read_manifest(self.folder)
        self.found = found_parts(self.folder, self.manifest)

    def compact(self, examples: Iterable[str]) -> None:
        """Put the rows into one part, or several of a bounded size, in the order of the examples.

        Killed halfway, an example may be in two parts, with the same values in both.
        """
        old = list_parts(self.folder)
        where = dict(self.found.where)
        wanted = list(dict.fromkeys([*examples, *where]))
        count = max(1, math.ceil(sum(map(parts.memory, old)) / LARGEST))
        if len(old) <= count:
            return
        size = math.ceil(len(wanted) / count)
        for start in range(0, len(wanted), size):
            window = wanted[start : start + size]
            places = {path: [e for e in window if where[e] == path] for path in old}
            tables = [parts.chosen(path, own) for path, own in places.items() if own]
            self._keep(parts.in_order(tables, window, self._run), window)
        for path in old:
            try:
                path.unlink()
            except OSError as error:
                raise DataError(f"cannot remove {path}: {error.strerror or error}") from error

    @property
    def _run(self) -> str:
        return str(self.manifest.get("run", ""))

    def _keep(self, content: bytes, examples: Iterable[str]) -> None:
        path = self.folder / FOLDER / part_name(content, list_parts(self.folder))
        self._write(path, content)
        self.found.where.update(dict.fromkeys(examples, path))

    def note(self, **entries: Any) -> None:
        """Put entries into the manifest and write it."""
        self.manifest.update(entries)
        check_file(self.folder / NAME)
        self._write(self.folder / NAME, (json.dumps(self.manifest, indent=1, allow_nan=False) + "\n").encode("ascii"))

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
        except DataError as error:
            if isinstance(error.__cause__, OSError) and error.__cause__.errno in (errno.ENOSPC, errno.EDQUOT):
                raise DataError(
                    f"no space left to write {path}; the {len(self.found.where)} examples finished before are safe: "
                    "make room and give the same command again, the run goes on from there"
                ) from error
            raise


def read_store(folder: str | Path) -> Store:
    """A run, finished or not, for reading only."""
    place = Path(folder)

    def look() -> Store:
        manifest = read_manifest(place)
        return Store(place, manifest, found_parts(place, manifest))

    store = _steadily(look, lambda: None)
    if store.found.damaged:
        raise DataError(
            f"{store.found.damaged[0]} is damaged: give the command that made the run again, and its examples are "
            "computed anew"
        )
    return store


def _steadily(read: Callable[[], T], again: Callable[[], None]) -> T:
    """What is read while somebody may be compacting: if a part has gone, its rows are in another one by now."""
    for look in range(LOOKS):
        try:
            if look:  # which may find itself overtaken, too
                again()
            return read()
        except (FileNotFoundError, Foreign):
            time.sleep(PAUSE)
    return read()


def found_parts(place: Path, manifest: Mapping[str, Any]) -> Found:
    """What lies in the folder of parts, held to what the manifest says."""
    return read_parts(place, manifest.get("run"), manifest.get("unmarked", ()))
