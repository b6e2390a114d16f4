"""What tables and figures call methods and metrics."""

from looprop.methods.registry import CATALOGUE
from looprop.metrics import get_metric, metric_names
from looprop.naming import split_name

# Forms of methods that the experiments ask for, and what is no method.
FORMS = {
    "rollout[residual=false]": "Rollout (as printed)",
    "attnlrp[epsilon=1e-6]": "AttnLRP",
    "loo[removal=mask-token]": "LOO by [MASK] token",
    "loo[removal=delete]": "LOO by deletion",
    "position": "token position",
    "length": "token length",
}


def name_of(method: str) -> str:
    """What tables call a method.

    >>> name_of("lrp[cp=:3]"), name_of("lrp[cp=4]"), name_of("ig"), name_of("ig[steps=20]")
    ('L:3', 'L4', 'IG', 'ig[steps=20]')
    """
    if method in CATALOGUE:
        return CATALOGUE[method].label()
    name, options = split_name(method)
    if name == "lrp" and options.startswith("cp="):
        return "L" + options.removeprefix("cp=")
    return FORMS.get(method, method)


def title_of(metric: str) -> str:
    """What tables call a metric; one that is not known here keeps its name.

    >>> title_of("loo-r"), title_of("delta"), title_of("of another time")
    ('r to LOO, special tokens too', 'delta', 'of another time')
    """
    return get_metric(metric).label if metric in metric_names() else metric
