"""The rewrites and the defaults of an audit, without importing torch.

The command line shows these names before anything heavy is loaded.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from looprop.errors import UnknownNameError


@dataclass(frozen=True)
class RewriteEntry:
    """One rewrite. place: its file in the folder `rewrites` and its class there. summary: what it does, in one line."""

    name: str
    place: str
    summary: str


CATALOGUE = {
    name: RewriteEntry(name, place, summary)
    for name, place, summary in (
        ("reassociated", "calls.Reassociated", "consecutive products in the other order: (a b) c as a (b c)"),
        ("scale-moved", "calls.ScaleMoved", "the scale of a product of two activations moved into its first factor"),
        ("attention-unfused", "calls.AttentionUnfused", "fused attention written out, written-out attention fused"),
        ("qk-rescaled", "heads.QueryKeyRescaled", "queries times a, keys times 1 / a, another a for every head"),
        (
            "vo-turned",
            "heads.ValueOutputTurned",
            "values times an invertible matrix per head, the output projection times its inverse",
        ),
        ("heads-permuted", "heads.HeadsPermuted", "attention heads in another order"),
        ("key-bias-shifted", "heads.KeyBiasShifted", "a constant added to all keys, which softmax does not see"),
        (
            "bias-moved",
            "linears.BiasMoved",
            "biases of values, norms and linear layers moved into the linear layer after them",
        ),
        ("linear-split", "linears.LinearSplit", "every linear layer as a product of two"),
        ("linear-merged", "linears.LinearMerged", "two linear layers in a row as one"),
        ("norm-folded", "linears.NormFolded", "the gain of a norm folded into the linear layers that read it"),
        ("norm-split", "linears.NormSplit", "gain and bias of a norm as a linear layer of their own"),
        (
            "batchnorm-folded",
            "linears.BatchNormFolded",
            "batch norm folded into the convolution or linear layer before it",
        ),
        ("relu-rescaled", "linears.ReluRescaled", "units before a ReLU times a > 0, what reads them times 1 / a"),
        ("relu-rearranged", "linears.ReluRearranged", "ReLU(w ReLU(u) - c - ...) as ReLU(w ReLU(u - c / w) - ...)"),
    )
}

STAGES = 3
"""Weights are shuffled in the last third of the layers, in the last two thirds, and in all."""

CHECKED = 5
"""Checks that ask the methods again do so on this many of the inputs."""


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


def steps(rewrites: int, *, checks: bool = True) -> int:
    """How many steps an audit takes, for a progress bar: the model as it is, every rewrite, every check.

    >>> steps(2), steps(2, checks=False)
    (8, 3)
    """
    return 1 + rewrites + (STAGES + 2 if checks else 0)
