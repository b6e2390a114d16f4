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
import secrets
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from looprop.errors import DataError
from looprop.files import TRIAL, check_folder_place, was_half_written, write_whole
from looprop.running import parts, provenance
from looprop.running.inside import check_file, check_folder, locked
from looprop.running.manifest import NAME, SCHEMA, VERSION, compare, plain, read_manifest
from looprop.running.parts import FOLDER, Row, list_parts, odd_names, part_name
from looprop.running.parts import NAME as PART_NAME

LARGEST = 64 * 2**20  # bytes in memory of the rows that are put into one part
LOOKS = 50  # how often a reader looks again when parts go while it reads
PAUSE = 0.02  # seconds between two looks

T = TypeVar("T")


class Foreign(DataError):
    """A part of another run."""


class Store:
    """The rows of a run, example by example. `open_store` opens it for writing, `read_store` for reading.

    In memory it holds only which part has which example: a run may be larger than that.

    where: the part that has the rows of an example, the latest if there are several. failed: examples of which a row
        holds an error. damaged: parts whose content is not what their names say.
    """

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        self.folder, self.manifest = folder, manifest
        # Entries for the manifest as soon as something is added to the run, and not before.
        self.note_later: dict[str, Any] = {}
        self._look()

    def _look(self) -> None:
        self.where: dict[str, Path] = {}
        self.failed: set[str] = set()
        self.damaged: list[Path] = []
        for path in list_parts(self.folder):
            rows = self._read(path)
            if rows is None:
                self.damaged.append(path)
            else:
                self._enter(path, rows)

    def missing(self, examples: Iterable[str], *, retry: bool = False) -> list[str]:
        """Those of the examples that have no rows yet, in order; with `retry` also those that failed."""
        have = self.where.keys() - (self.failed if retry else ())
        return [example for example in examples if example not in have]

    def add(self, rows: Sequence[Row]) -> None:
        """Keep the rows of some examples; each example's rows must come together."""
        if not rows:
            return
        if self.note_later:
            self.note(**self.note_later)
            self.note_later = {}
        self._enter(self._keep(parts.to_bytes(rows, self._run)), rows)

    def rows(self, examples: Iterable[str] | None = None) -> list[Row]:
        """The rows of these examples (all by default), in their order."""
        wanted = None if examples is None else list(examples)
        return _steadily(lambda: self._rows(wanted), self._look_again)

    def _rows(self, examples: list[str] | None) -> list[Row]:
        wanted = list(self.where) if examples is None else examples
        found: dict[str, list[Row]] = {}
        for path in dict.fromkeys(self.where[example] for example in wanted):
            rows = self._read(path)
            if rows is None:
                raise DataError(f"{path} was damaged while the run was open: give the same command again")
            for row in rows:
                if self.where.get(row["example"]) == path:
                    found.setdefault(row["example"], []).append(row)
        return [row for example in wanted for row in found[example]]

    def _look_again(self) -> None:
        self.manifest = read_manifest(self.folder)
        self._look()

    def compact(self, examples: Iterable[str]) -> None:
        """Put the rows into one part, or several of a bounded size, in the order of the examples.

        Killed halfway, an example may be in two parts, with the same values in both.
        """
        old, wanted = list_parts(self.folder), list(dict.fromkeys([*examples, *self.where]))
        count = max(1, math.ceil(sum(map(parts.memory, old)) / LARGEST))
        if len(old) <= count:
            return
        size = math.ceil(len(wanted) / count)
        for start in range(0, len(wanted), size):
            window = wanted[start : start + size]
            self.where.update(dict.fromkeys(window, self._keep(parts.to_bytes(self._rows(window), self._run))))
        for path in old:
            try:
                path.unlink()
            except OSError as error:
                raise DataError(f"cannot remove {path}: {error.strerror or error}") from error

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

    @property
    def _run(self) -> str:
        """The name that parts of this run carry; empty for runs that were begun before parts had one."""
        return str(self.manifest.get("run", ""))

    def _read(self, path: Path) -> list[Row] | None:
        """The rows of a part; None if its content is not what its name says. A part of another run raises."""
        check_file(path)
        content = path.read_bytes()
        if not parts.is_whole(path, content):
            return None
        try:
            rows, run = parts.of_a_run(content)
        except DataError as error:
            raise DataError(f"{path} is not a part of a run: {error}. Move it away") from error
        if run != self._run and (run or path.name not in self.manifest.get("unmarked", ())):
            raise Foreign(f"{path} is a part of another run, or of none: move it away, or use another folder")
        return rows

    def _enter(self, path: Path, rows: Sequence[Row]) -> None:
        """Remember that these rows are in that part."""
        examples = dict.fromkeys((row["example"] for row in rows), path)
        self.where.update(examples)
        self.failed -= examples.keys()
        self.failed |= {row["example"] for row in rows if row.get("error")}

    def _keep(self, content: bytes) -> Path:
        path = self.folder / FOLDER / part_name(content, list_parts(self.folder))
        self._write(path, content)
        return path

    def _write(self, path: Path, content: bytes) -> None:
        try:
            write_whole(path, content, durable=True)
        except DataError as error:
            if isinstance(error.__cause__, OSError) and error.__cause__.errno in (errno.ENOSPC, errno.EDQUOT):
                raise DataError(
                    f"no space left to write {path}; the {len(self.where)} examples finished before are safe: "
                    "make room and give the same command again, the run goes on from there"
                ) from error
            raise


def read_store(folder: str | Path) -> Store:
    """A run, finished or not, for reading only."""
    place = Path(folder)
    store = _steadily(lambda: Store(place, read_manifest(place)), lambda: None)
    if store.damaged:
        raise DataError(
            f"{store.damaged[0]} is damaged: give the command that made the run again, and its examples are computed "
            "anew"
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


Identity = Mapping[str, Any]


class OldManifestWarning(UserWarning):
    """A run was begun when manifests said less: what it does not say cannot be compared."""


@contextmanager
def open_store(
    folder: str | Path,
    identity: Identity,
    *,
    grows: Callable[[Identity], bool] | None = None,
    **about: Any,
) -> Iterator[Store]:
    """Open a run folder for writing, new or to be continued.

    identity: what the numbers depend on, as plain data (spec, model, data, seeds). A folder that was begun with another
        identity is refused, with the names of what changed. What an older manifest does not say is taken as it is, said
        in the session and by an `OldManifestWarning`.
    grows: says of such an identity that it differs only in having fewer examples; then the run takes the new one and
        goes on. about: more entries for the manifest.
    """
    place = Path(folder)
    check_folder_place(place)
    with ExitStack() as held:
        try:
            check_folder(place / FOLDER)
            (place / FOLDER).mkdir(parents=True, exist_ok=True)
            held.enter_context(locked(place / "lock"))
        except OSError as error:
            raise DataError(f"cannot use {place} as a run folder: {error.strerror or error}") from error
        yield _opened(place, plain(identity), grows, about)


def _opened(
    place: Path, identity: dict[str, Any], grows: Callable[[Identity], bool] | None, about: dict[str, Any]
) -> Store:
    now = {"identity": identity, "fingerprint": provenance.fingerprint(identity)}
    unstated: tuple[str, ...] = ()
    if check_file(place / NAME):
        manifest = read_manifest(place)
        compared = compare(manifest["identity"], identity)
        unstated = compared.unstated
        if compared.changed and grows is not None and grows(manifest["identity"]):
            about = {**about, **now}
        elif compared.changed:
            raise DataError(
                f"{place} holds another run; changed: {'; '.join(compared.changed)}. Use another folder, or the same "
                "settings as before"
            )
    else:
        if any((place / FOLDER).iterdir()):
            raise DataError(f"{place} holds parts but no manifest: use another folder")
        manifest = {"schema": SCHEMA, "version": VERSION, **now, "sessions": [], "run": secrets.token_hex(8)}
    store = Store(place, manifest)
    try:
        for path in store.damaged:
            path.replace(path.with_suffix(".damaged"))
        _remove_half_written(place)
    except OSError as error:
        raise DataError(f"cannot tidy {place}: {error.strerror or error}: {error.filename}") from error
    if "run" not in manifest:
        about = {**about, "run": secrets.token_hex(8), "unmarked": [path.name for path in list_parts(place)]}
    store.note_later = now if unstated else {}
    session: dict[str, Any] = {"started": provenance.now(), "finished": None, "versions": provenance.versions()}
    session |= {"hardware": provenance.hardware(), "damaged": [path.name for path in store.damaged]}
    session |= {"unstated": list(unstated)} if unstated else {}
    session |= {"odd": odd} if (odd := odd_names(place)) else {}
    store.note(**about, sessions=[*manifest["sessions"], session])
    if unstated:
        warnings.warn(
            f"the manifest of {place} is of an older looprop and does not say {', '.join(unstated)}: whether these are "
            "as they were then is not known",
            OldManifestWarning,
            stacklevel=4,
        )
    return store


def _remove_half_written(place: Path) -> None:
    """What a process that was killed had begun to write. Nothing else: other names are of other people."""
    for folder, form in ((place / FOLDER, PART_NAME), (place, rf"manifest[.]json|{TRIAL}")):
        for path in folder.iterdir():
            if was_half_written(path.name, form) and check_file(path):
                path.unlink()
