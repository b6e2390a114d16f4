"""What there is to choose from, without importing torch: the name, place, one-line summary and cost of every method."""

import re
from dataclasses import dataclass

from looprop.errors import UnknownNameError


@dataclass(frozen=True)
class Entry:
    """One method.

    module, attribute: where its class is. summary: equal to the class's own. example: how it is called in the demo.
    cost: in forward passes of an input with F features, counted as docs/protocol.md says; other names are the method's
        options.
    """

    name: str
    module: str
    attribute: str
    summary: str
    cost: str
    example: str = ""


_ENTRIES = (
    Entry("loo", "loo", "LeaveOneOut", "exact leave-one-out: the drop of the target when a feature is removed", "F"),
    Entry(
        "looprop",
        "looprop.method",
        "LoopProp",
        "the leave-one-out effect itself, exact in a few rows, first order in the rest",
        "3 + rows * F / T + refine",
    ),
    Entry(
        "cp-lrp",
        "lrp",
        "CPLRP",
        "relevance through values only, attention weights held constant",
        "3",
    ),
    Entry(
        "attnlrp",
        "lrp",
        "AttnLRP",
        "relevance through values and attention weights, softmax by its Taylor rule",
        "3",
    ),
    Entry(
        "lrp",
        "lrp",
        "LRP",
        "relevance propagation with CP-LRP in chosen layers, AttnLRP in the others: lrp[cp=4-6]",
        "3",
        "lrp[cp=2:]",
    ),
    Entry("grad-x-input", "grad_x_input", "GradientTimesInput", "ordinary gradient times the word embedding", "3"),
    Entry(
        "ig", "ig", "IntegratedGradients", "integrated gradients from zero embeddings, midpoint rule", "3 * steps + 1"
    ),
    Entry("rollout", "rollout", "AttentionRollout", "product of head-averaged attention over the layers", "1"),
    Entry("random", "random_scores", "RandomScores", "normal random scores from a fixed seed", "0"),
)

CATALOGUE = {entry.name: entry for entry in _ENTRIES}


def check_name(method: str) -> str:
    """The name of a method without its options, `ig[steps=20]` -> `ig`; an unknown one raises.

    >>> check_name("lrp[cp=4-6]")
    'lrp'
    """
    match = re.fullmatch(r"([\w-]+)(?:\[.*\])?", method.strip())
    if match is None or match[1] not in CATALOGUE:
        raise UnknownNameError("method", method, CATALOGUE)
    return match[1]


def split_name(method: str) -> tuple[str, str]:
    """The name of a method and the text of its options, which may be empty; neither is checked.

    >>> split_name("lrp[cp=4-6]"), split_name("loo")
    (('lrp', 'cp=4-6'), ('loo', ''))
    """
    name, _, options = method.strip().partition("[")
    return name, options.removesuffix("]")
