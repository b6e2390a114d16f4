"""Relevance propagation: the paper's equations, the plan that chooses among them, and the mode that applies them."""

from typing import TYPE_CHECKING

from looprop.lazily import lazily

if TYPE_CHECKING:
    from looprop.propagation.call import Call
    from looprop.propagation.gradients import hold, identity_rule, scale_gradient, weigh_gradient
    from looprop.propagation.plan import GRADIENT, Plan, parse_layers
    from looprop.propagation.rules.base import rule
    from looprop.propagation.tape import relevance

# Imported when first used: torch takes its time.
_HOMES = {
    "GRADIENT": "looprop.propagation.plan",
    "Call": "looprop.propagation.call",
    "Plan": "looprop.propagation.plan",
    "hold": "looprop.propagation.gradients",
    "identity_rule": "looprop.propagation.gradients",
    "parse_layers": "looprop.propagation.plan",
    "relevance": "looprop.propagation.tape",
    "rule": "looprop.propagation.rules.base",
    "scale_gradient": "looprop.propagation.gradients",
    "weigh_gradient": "looprop.propagation.gradients",
}

__all__ = [
    "GRADIENT",
    "Call",
    "Plan",
    "hold",
    "identity_rule",
    "parse_layers",
    "relevance",
    "rule",
    "scale_gradient",
    "weigh_gradient",
]

__getattr__, __dir__ = lazily(__name__, _HOMES)
