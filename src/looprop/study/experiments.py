"""The experiments that come with looprop, without importing torch: every YAML file in specs/ is one."""

from importlib.resources import files

from looprop.errors import UnknownNameError

_SPECS = files("looprop.study").joinpath("specs")


def experiment_names() -> list[str]:
    """The names of all experiments.

    >>> experiment_names()
    ['baselines', 'bilinear', 'layers', 'remedy', 'softmax']
    """
    return sorted(file.name.removesuffix(".yaml") for file in _SPECS.iterdir() if file.name.endswith(".yaml"))


def experiment_text(name: str) -> str:
    """The YAML of an experiment."""
    if name not in experiment_names():
        raise UnknownNameError("experiment", name, experiment_names())
    return _SPECS.joinpath(f"{name}.yaml").read_text(encoding="utf-8")
