"""Rewrites of a model that leave its function as it is.

base: the class of all rewrites, and how a model is changed and put back. observing, structures: the readers of each
module's output, and the attention blocks of a model. All other files hold the rewrites themselves, by what they change.
"""
