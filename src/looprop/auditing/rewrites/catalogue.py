"""The rewrites there are to choose from, without importing torch: the name, place and one-line summary of each.

The command line shows these names before anything heavy is loaded. A class says its name and summary once more, since
own rewrites have no entry here; a test holds the two together.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from looprop.errors import UnknownNameError


@dataclass(frozen=True)
class RewriteEntry:
    """One rewrite: where its class is, and what it does. module: a file of this folder; attribute: a class in it."""

    name: str
    module: str
    attribute: str
    summary: str


_ENTRIES = (
    RewriteEntry(
        "reassociated", "products", "Reassociated", "consecutive products in the other order: (a b) c as a (b c)"
    ),
    RewriteEntry(
        "scale-moved", "products", "ScaleMoved", "the scale of a product of two activations moved into its first factor"
    ),
    RewriteEntry(
        "attention-unfused", "kernels", "AttentionUnfused", "fused attention written out, written-out attention fused"
    ),
    RewriteEntry(
        "qk-rescaled", "heads", "QueryKeyRescaled", "queries times a, keys times 1 / a, another a for every head"
    ),
    RewriteEntry(
        "vo-turned",
        "heads",
        "ValueOutputTurned",
        "values times an invertible matrix per head, the output projection times its inverse",
    ),
    RewriteEntry("heads-permuted", "heads", "HeadsPermuted", "attention heads in another order"),
    RewriteEntry(
        "key-bias-shifted", "constants", "KeyBiasShifted", "a constant added to all keys, which softmax does not see"
    ),
    RewriteEntry(
        "bias-moved",
        "constants",
        "BiasMoved",
        "biases of values, norms and linear layers moved into the linear layer after them",
    ),
    RewriteEntry("linear-split", "linears", "LinearSplit", "every linear layer as a product of two"),
    RewriteEntry("linear-merged", "linears", "LinearMerged", "two linear layers in a row as one"),
    RewriteEntry("norm-folded", "norms", "NormFolded", "the gain of a norm folded into the linear layers that read it"),
    RewriteEntry("norm-split", "norms", "NormSplit", "gain and bias of a norm as a linear layer of their own"),
    RewriteEntry(
        "batchnorm-folded",
        "norms",
        "BatchNormFolded",
        "batch norm folded into the convolution or linear layer before it",
    ),
    RewriteEntry(
        "relu-rescaled", "relus", "ReluRescaled", "units before a ReLU times a > 0, what reads them times 1 / a"
    ),
    RewriteEntry(
        "relu-rearranged", "relus", "ReluRearranged", "ReLU(w ReLU(u) - c - ...) as ReLU(w ReLU(u - c / w) - ...)"
    ),
)

CATALOGUE = {entry.name: entry for entry in _ENTRIES}


def check_rewrites(names: Iterable[str]) -> list[str]:
    """The names in order, each once; an unknown one raises.

    >>> check_rewrites(["vo-turned", "vo-turned"])
    ['vo-turned']
    """
    chosen = list(dict.fromkeys(name.strip() for name in names))
    for name in chosen:
        if name not in CATALOGUE:
            raise UnknownNameError("rewrite", name, CATALOGUE)
    return chosen
