"""The engine of many machines: shards of examples to workers on a Ray cluster. Nothing here but `engine` needs Ray to
be imported.
"""
