"""Open a run folder for writing: new, or one that was begun with the same identity."""

import secrets
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from looprop.errors import DataError
from looprop.files import TRIAL, check_folder_place, was_half_written
from looprop.running import provenance
from looprop.running.identity import compare, plain
from looprop.running.inside import check_file, check_folder
from looprop.running.lock import locked
from looprop.running.manifest import NAME, SCHEMA, VERSION, read_manifest
from looprop.running.parts import FOLDER, list_parts, odd_names
from looprop.running.parts import NAME as PART_NAME
from looprop.running.store import Store

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
