"""Games: what features are worth, alone and together, when all that is known is the value of every set of them.

Pure mathematics on a function from sets to numbers. `values.py` has the Shapley value, exact and by sampled orders, and
both of its ends; `sampling.py` has it by sampled sets, helped by a game of `smooth.py`; `regression.py` KernelSHAP and
LIME; `interactions.py` what pairs do that their parts do not; `orders.py` the best and the worst order in which
features can go.
"""
