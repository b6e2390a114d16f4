"""AttnLRP (Achtibat et al. 2024) in every layer."""

from looprop.methods.lrp import LRP


class AttnLRP(LRP):
    """AttnLRP in every layer. The options are those of `LRP`, without its layers and its plan."""

    name = "attnlrp"
    title = "AttnLRP"
    summary = "relevance through values and attention weights, softmax by its Taylor rule"
    cost = "3"
    kind = "share"
    short = ""
    example = ""
    fixed = frozenset({"cp", "plan"})
