"""The kinds of experiments: what each computes for one example."""
