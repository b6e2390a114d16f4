"""CP-LRP (Ali et al. 2022) in every layer."""

from looprop.methods.lrp import LRP


class CPLRP(LRP):
    """CP-LRP in every layer. The options are those of `LRP`, without its layers and its plan."""

    name = "cp-lrp"
    title = "CP-LRP"
    summary = "relevance through values only, attention weights held constant"
    cost = "3"
    kind = "share"
    short = ""
    example = ""
    fixed = frozenset({"cp", "plan"})
    layers = "all"
