"""Games: what features are worth, alone and together, when all that is known is the value of every set of them.

Pure mathematics on a function from sets to numbers. `values.py` has the Shapley value, exact and by sampled orders,
both of its ends, and what pairs do that their parts do not; `smooth.py` has it from a guess and a few values,
`sampling.py` from sampled sets, with KernelSHAP and LIME; `orders.py` has the best and the worst order of removal.
"""
