"""The experiments that come with looprop, without importing torch: every YAML file in specs/ is one."""

from importlib.resources import files

from looprop.errors import UnknownNameError

_SPECS = files("looprop.study").joinpath("specs")
_OF_THE_PAPER = ("bilinear", "softmax", "baselines", "layers")


def experiment_names() -> list[str]:
    """The names of all experiments: those of the paper in its order, then others by name.

    >>> experiment_names()[:4], "remedy" in experiment_names()
    (['bilinear', 'softmax', 'baselines', 'layers'], True)
    """
    names = sorted(file.name.removesuffix(".yaml") for file in _SPECS.iterdir() if file.name.endswith(".yaml"))
    return [*_OF_THE_PAPER, *(name for name in names if name not in _OF_THE_PAPER)]


def experiment_text(name: str) -> str:
    """The YAML of an experiment."""
    if name not in experiment_names():
        raise UnknownNameError("experiment", name, experiment_names())
    return _SPECS.joinpath(f"{name}.yaml").read_text(encoding="utf-8")
