"""The experiments that can be run by name, found without importing torch, and their kinds.

Experiments of the paper are YAML files in specs/. Others are folders of the source, experiments/NAME, with a kind of
their own in `__init__.py` and the experiment in `experiment.yaml`; no wheel holds them.

Every file and folder here is a kind, found by its name and imported when it is needed. A kind may also be a folder
elsewhere, which holds it as `KIND` in `__init__.py`. Code runs when such a folder is loaded. So it must be named by the
caller, or belong to the clone that looprop itself is imported from; a specification or a manifest gives the name of a
kind, and never a path.
"""

import sys
from importlib import import_module
from importlib.resources import files
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

from looprop.errors import DataError, UnknownNameError
from looprop.running.engines import LOADED_FROM_FOLDER

if TYPE_CHECKING:
    from looprop.study.kind import Kind


SPEC = "experiment.yaml"
AUDIT_CASES = ("product", "mnist")
"""The paper's own cases of the audit, by name."""
_SPECS = files("looprop.study").joinpath("specs")
_OF_THE_PAPER = ("bilinear", "softmax", "baselines", "layers")
_OF_THE_SOURCE = ("context", "exhaustive", "planted", "readings", "truths")
_ROOT = Path(__file__).resolve().parents[4]
"""Of the clone, if looprop is imported from one."""


def experiment_names() -> list[str]:
    """The names of all experiments that are here: those of the paper in its order, then others by name.

    >>> experiment_names()[:4], "remedy" in experiment_names()
    (['bilinear', 'softmax', 'baselines', 'layers'], True)
    """
    names = {file.name.removesuffix(".yaml") for file in _SPECS.iterdir() if file.name.endswith(".yaml")}
    return [*_OF_THE_PAPER, *sorted({*names, *source_folders()} - {*_OF_THE_PAPER})]


def source_folders() -> dict[str, Path]:
    """The folders of experiments in the clone that looprop is imported from, by name; none for an installed wheel."""
    project, place = _ROOT / "pyproject.toml", _ROOT / "experiments"
    if not project.is_file() or not place.is_dir() or 'name = "looprop"' not in project.read_text(encoding="utf-8"):
        return {}
    return {path.name: path for path in place.iterdir() if (path / SPEC).is_file()}


def experiment_text(name: str) -> str:
    """The YAML of an experiment."""
    if name not in experiment_names():
        raise not_here(name) or UnknownNameError("experiment", name, experiment_names())
    folder = source_folders().get(name)
    return (_SPECS.joinpath(f"{name}.yaml") if folder is None else folder / SPEC).read_text(encoding="utf-8")


def not_here(name: str) -> DataError | None:
    """The error for an experiment of the source that is not in this installation; None for any other name."""
    if name not in _OF_THE_SOURCE:
        return None
    return DataError(
        f"{name!r} is not part of the installed package. Get it from a clone of looprop or from its source "
        f"distribution, and name its folder: looprop reproduce experiments/{name}, or looprop report RUN --experiment "
        f"experiments/{name}"
    )


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
