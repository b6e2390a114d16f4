"""The page of a real evaluation of a tiny model, made once."""

from functools import cache

import looprop
from evaluation.tiny import TEXTS, tiny_model, tiny_tokenizer
from looprop.evaluation import Evaluation
from looprop.evaluation.page import evaluation_page

METHODS = ("loo", "looprop", "attnlrp", "cp-lrp", "grad-x-input", "rollout", "random")


@cache
def evaluated() -> Evaluation:
    """Seven methods on six texts, by the paper's metrics."""
    return looprop.evaluate(looprop.load((tiny_model(), tiny_tokenizer())), TEXTS, METHODS)


@cache
def measured() -> str:
    """Its page."""
    return evaluation_page(evaluated())
