"""Rewrites of a model that leave its function as it is."""
