"""Kinds of models, one file each: how inputs are encoded, and how a target is read off the answer. Found by file."""
