"""What there is to choose from, by the names of the files of this folder, without importing torch."""

from pathlib import Path

from looprop.errors import UnknownNameError
from looprop.naming import split_name

DEFAULT = "looprop"  # what explains where no method is named
COMPARED = ("loo", "looprop", "attnlrp", "cp-lrp", "random")  # what an evaluation measures where no methods are named

SCORE_KINDS = {
    "effect": "what happens to the target when the feature goes",
    "share": "the feature's part of the output",
    "weight": "how much the feature matters, not which way; never negative",
    "none": "nothing about the model",
}
"""What a score says. Effects and shares have a sign and the unit of the target."""

# Files of this folder that are no method.
OTHERS = frozenset({"__init__", "base", "default", "names", "parts", "registry"})
# The order of tables and lists; methods that are not named here stand before the last.
FIRST = (
    "loo shapley fast-shapley alone both-ends looprop cp-lrp attnlrp lrp gim pa-lrp libragrad grad-x-input ig "
    "rollout generic-attention attention-norm value-zeroing kernel-shap lime"
).split()
LAST = "random"

REGISTERED: dict[str, type] = {}  # classes of one's own, by name; `registry.register` enters them


def method_names() -> list[str]:
    """The names of all methods, in the order in which they are shown."""
    files = {path.stem for path in Path(__file__).parent.iterdir() if path.suffix == ".py" or path.is_dir()}
    found = {stem.replace("_", "-") for stem in files - OTHERS if not stem.startswith("__")} | REGISTERED.keys()
    rank = {name: place for place, name in enumerate(FIRST)}
    return sorted(found, key=lambda name: (name == LAST, rank.get(name, len(rank)), name))


def check_name(method: str) -> str:
    """The name of a method without its options, `ig[steps=20]` -> `ig`; an unknown one raises.

    >>> check_name("lrp[cp=4-6]")
    'lrp'
    """
    name, _ = split_name(method)
    if name not in (names := method_names()):
        raise UnknownNameError("method", method, names)
    return name
