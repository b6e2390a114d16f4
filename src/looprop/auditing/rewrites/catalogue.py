"""The rewrites there are to choose from, without importing torch: the name, place and one-line summary of each."""

from collections.abc import Iterable
from dataclasses import dataclass

from looprop.errors import UnknownNameError


@dataclass(frozen=True)
class Entry:
    """One rewrite: where its class is, and what it does."""

    name: str
    module: str
    attribute: str
    summary: str


_ENTRIES = (
    Entry("reassociated", "products", "Reassociated", "consecutive products in the other order: (a b) c as a (b c)"),
    Entry(
        "scale-moved", "products", "ScaleMoved", "the scale of a product of two activations moved into its first factor"
    ),
    Entry(
        "attention-unfused", "kernels", "AttentionUnfused", "fused attention written out, written-out attention fused"
    ),
    Entry("qk-rescaled", "heads", "QueryKeyRescaled", "queries times a, keys times 1 / a, another a for every head"),
    Entry(
        "vo-turned",
        "heads",
        "ValueOutputTurned",
        "values times an invertible matrix per head, the output projection times its inverse",
    ),
    Entry("heads-permuted", "heads", "HeadsPermuted", "attention heads in another order"),
    Entry(
        "key-bias-shifted", "constants", "KeyBiasShifted", "a constant added to all keys, which softmax does not see"
    ),
    Entry(
        "bias-moved",
        "constants",
        "BiasMoved",
        "biases of values, norms and linear layers moved into the linear layer after them",
    ),
    Entry("linear-split", "linears", "LinearSplit", "every linear layer as a product of two"),
    Entry("linear-merged", "linears", "LinearMerged", "two linear layers in a row as one"),
    Entry("norm-folded", "norms", "NormFolded", "the gain of a norm folded into the linear layers that read it"),
    Entry("norm-split", "norms", "NormSplit", "gain and bias of a norm as a linear layer of their own"),
    Entry(
        "batchnorm-folded",
        "norms",
        "BatchNormFolded",
        "batch norm folded into the convolution or linear layer before it",
    ),
    Entry("relu-rescaled", "relus", "ReluRescaled", "units before a ReLU times a > 0, what reads them times 1 / a"),
    Entry("relu-rearranged", "relus", "ReluRearranged", "ReLU(w ReLU(u) - c - ...) as ReLU(w ReLU(u - c / w) - ...)"),
)

CATALOGUE = {entry.name: entry for entry in _ENTRIES}


def check_rewrites(names: Iterable[str]) -> list[str]:
    """The names in order, each once; an unknown one raises.

    >>> check_rewrites(["vo-turned", "vo-turned"])
    ['vo-turned']
    """
    found = list(dict.fromkeys(name.strip() for name in names))
    for name in found:
        if name not in CATALOGUE:
            raise UnknownNameError("rewrite", name, CATALOGUE)
    return found
