"""How many architectures of the transformers library are explained, and how: a tiny random model of each, held to slow
ways.
"""
