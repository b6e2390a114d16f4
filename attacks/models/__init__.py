"""Odd Transformers, and the naive loop that says what leave-one-out of them is."""
