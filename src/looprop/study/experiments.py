"""The experiments and cases that can be run by name, found without importing torch.

Those of the paper are YAML files in specs/. Others are folders of the source, experiments/NAME, with a kind of their
own in `__init__.py` and the experiment in `experiment.yaml`; no wheel holds them.
"""

from importlib.resources import files
from pathlib import Path

from looprop.errors import DataError, UnknownNameError

SPEC = "experiment.yaml"
AUDIT_CASES = ("product", "mnist")
"""The paper's own cases of the audit, by name."""
_SPECS = files("looprop.study").joinpath("specs")
_OF_THE_PAPER = ("bilinear", "softmax", "baselines", "layers")
_OF_THE_SOURCE = ("context", "exhaustive", "planted", "readings", "truths")
_ROOT = Path(__file__).resolve().parents[3]
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
