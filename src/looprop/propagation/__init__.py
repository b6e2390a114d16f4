"""Relevance propagation: the paper's equations, the plan that chooses among them, and the mode that applies them."""

from typing import TYPE_CHECKING

from looprop.lazily import lazily

if TYPE_CHECKING:
    from looprop.propagation.call import Call as Call
    from looprop.propagation.gradients import (
        hold as hold,
        identity_rule as identity_rule,
        scale_gradient as scale_gradient,
        weigh_gradient as weigh_gradient,
    )
    from looprop.propagation.plan import GRADIENT as GRADIENT, Plan as Plan, parse_layers as parse_layers
    from looprop.propagation.rules.base import rule as rule
    from looprop.propagation.tape import relevance as relevance

# Imported when first used: torch takes its time.
__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "call": "Call",
        "gradients": "hold identity_rule scale_gradient weigh_gradient",
        "plan": "GRADIENT Plan parse_layers",
        "rules.base": "rule",
        "tape": "relevance",
    },
)
