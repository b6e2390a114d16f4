"""Rewrites of a model that leave its function as it is.

catalogue: their names, without torch. base: what a rewrite is. changes: how a model is changed and put back.
observing, structures: what a model looks like to a rewrite, who reads whom and where its attention is. modes: the base
of rewrites that change calls instead of weights. All other files hold the rewrites themselves, by what they change.
"""
