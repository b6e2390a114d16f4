"""Group norm and instance norm: the standard deviation of each group of channels is a constant, as in a layer norm."""

from typing import Any

from looprop.propagation import operations
from looprop.propagation.call import Call
from looprop.propagation.gradients import constant_std_norm
from looprop.propagation.rules.base import rule
from looprop.propagation.rules.linear import weighed

_GROUP = ("input", "num_groups", "weight", "bias", "eps")
_INSTANCE = ("input", "running_mean", "running_var", "weight", "bias", "use_input_stats", "momentum", "eps")


@rule(*operations.GROUP_NORM)
def group_norm(call: Call) -> Any:
    """A layer norm over all positions of the channels of a group, then a gain and a shift for each channel."""
    if call.plan.norm == "gradient":
        return call.run()
    if len(call.activations) > 1:
        raise call.refuse("its weight or bias depends on activations")
    names = _GROUP if call.name == "group_norm" else _INSTANCE
    given = {**dict(zip(names, call.args, strict=False)), **call.kwargs}
    if not given.get("use_input_stats", True):
        raise call.refuse("it normalises by stored statistics")
    x, weight, bias = given["input"], given.get("weight"), given.get("bias")
    groups = given.get("num_groups", x.shape[1])
    grouped = x.reshape(len(x), groups, -1)  # (B, G, C / G * positions)
    out = constant_std_norm(grouped, [grouped.shape[-1]], None, None, given.get("eps", 1e-5), centered=True)
    channels = (-1, *[1] * (x.dim() - 2))
    out = out.reshape(x.shape)
    out = out if weight is None else out * weight.reshape(channels)
    shift = None if bias is None else bias.reshape(channels)
    return weighed(call, out if shift is None else out + shift, without=shift)
