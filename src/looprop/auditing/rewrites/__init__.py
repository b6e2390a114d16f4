"""Rewrites of a model that leave its function as it is.

base: the class of all rewrites. changes: change a model and put it back. observing, structures: the readers of each
module's output, and the attention blocks of a model. modes: the base of rewrites that change calls instead of weights.
All other files hold the rewrites themselves, by what they change.
"""
