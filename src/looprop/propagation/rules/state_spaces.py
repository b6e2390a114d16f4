"""State spaces and delta nets: what their recurrences need besides products, sums and coefficients.

The decays and step sizes of a state (softplus, exp, sigmoid) are coefficients, so that each step
h_t = a_t h_(t-1) + u_t is linear in the state, and relevance runs back along it (MambaLRP, Jafari et al. 2024).
"""

from typing import Any

from looprop.propagation import degrees
from looprop.propagation.call import Call
from looprop.propagation.gradients import hold
from looprop.propagation.rules.base import rule
from looprop.propagation.rules.coefficients import constant
from looprop.propagation.rules.linear import weighed


@rule("logsumexp")
def log_sum_exp(call: Call) -> Any:
    """The logarithm of a softmax's denominator: a coefficient."""
    return constant(call, call.run())


@rule("linalg_solve_triangular")
def solve_triangular(call: Call) -> Any:
    """Linear in the right-hand side; the matrix is a coefficient.  A X = B:  R_B = B * A^-T g_X, R_A = 0"""
    matrix, right = call.args
    if call.plan.product == "gradient":
        return call.run()
    if not right.requires_grad:
        return constant(call, call.run())
    return degrees.still(call, weighed(call, call.run(hold(matrix), right)))
