"""The kinds of experiments: every file and folder here is one, found by its name and imported when it is needed.

A kind may also be a folder elsewhere, which holds it as `KIND` in `__init__.py`. Code runs when such a folder is
loaded. So it must be named by the caller, or belong to the clone that looprop itself is imported from; a specification
or a manifest gives the name of a kind, and never a path.
"""

import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

from looprop.errors import DataError, UnknownNameError
from looprop.running.engines import LOADED_FROM_FOLDER
from looprop.study.experiments import not_here, source_folders

if TYPE_CHECKING:
    from looprop.study.kind import Kind


def kind_names() -> list[str]:
    """The names of the kinds that come with the package.

    >>> kind_names()
    ['networks', 'texts', 'toys']
    """
    return sorted(module.name for module in iter_modules(__path__))


def get_kind(name: str) -> "Kind":
    """The kind of that name: of the package, of a folder that was loaded before, or of the clone."""
    if name in kind_names():
        kind: Kind = import_module(f"{__name__}.{name}").KIND
        return kind
    if loaded := sys.modules.get(LOADED_FROM_FOLDER + name):
        return _kind_of(loaded)
    if folder := source_folders().get(name):
        return load_kind(folder)
    raise not_here(name) or UnknownNameError("kind of experiment", name, [*kind_names(), *source_folders()])


def load_kind(folder: str | Path) -> "Kind":
    """Load the kind in a folder, called like the folder; this runs the code there."""
    place = Path(folder).resolve()
    start = place / "__init__.py"
    if not start.is_file():
        raise DataError(f"{folder} is no folder of an experiment: it holds no __init__.py with its KIND")
    if not place.name.isidentifier() or place.name in kind_names():
        raise DataError(
            f"a folder of an experiment must be called like a Python module, and not {', '.join(kind_names())}, "
            f"got {place.name!r}"
        )
    name = LOADED_FROM_FOLDER + place.name
    if (before := sys.modules.get(name)) and before.__file__ != str(start):
        raise DataError(f"an experiment {place.name!r} was loaded from {before.__file__} before: rename one of them")
    return _kind_of(before or _imported(name, start))


def _imported(name: str, start: Path) -> Any:
    """The package of a folder; its own modules are imported relative to it (`from .tables import ...`)."""
    found = spec_from_file_location(name, start, submodule_search_locations=[str(start.parent)])
    assert found is not None
    assert found.loader is not None
    sys.modules[name] = module = module_from_spec(found)
    try:
        found.loader.exec_module(module)
        _kind_of(module)
    except BaseException as error:
        for own in [loaded for loaded in sys.modules if loaded == name or loaded.startswith(f"{name}.")]:
            del sys.modules[own]
        if isinstance(error, DataError) or not isinstance(error, Exception):
            raise
        raise DataError(f"cannot load {start}: {type(error).__name__}: {error}") from error
    return module


def _kind_of(module: Any) -> "Kind":
    from looprop.study.kind import Kind  # which needs the rows of a run

    kind = getattr(module, "KIND", None)
    if not isinstance(kind, Kind):
        raise DataError(f"{module.__file__} must hold an instance of a subclass of looprop.study.Kind as KIND")
    return kind
