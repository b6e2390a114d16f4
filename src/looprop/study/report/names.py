"""What tables and figures call methods and metrics."""

from looprop.methods.names import split_name

NAMES = {
    "loo": "LOO",
    "ig": "IG",
    "rollout": "Rollout (with residual)",
    "rollout[residual=false]": "Rollout (as printed)",
    "attnlrp": "AttnLRP",
    "attnlrp[epsilon=1e-6]": "AttnLRP",
    "cp-lrp": "CP-LRP",
    "grad-x-input": "gradient x input",
    "position": "token position",
    "length": "token length",
    "loo[removal=mask-token]": "LOO by [MASK] token",
    "loo[removal=delete]": "LOO by deletion",
}
TITLES = {
    "loo-r": "LOO r",
    "loo-r-no-special": "r without special tokens",
    "loo-r-paper": "r normalised",
    "lerf": "LeRF",
    "morf": "MoRF",
}


def name_of(method: str) -> str:
    """What tables call a method.

    >>> name_of("lrp[cp=:3]"), name_of("lrp[cp=4]")
    ('L:3', 'L4')
    """
    name, options = split_name(method)
    if name == "lrp" and options.startswith("cp="):
        return "L" + options.removeprefix("cp=")
    return NAMES.get(method, method)
