"""Benchmarks: what looprop costs, measured. Run one with `python -m benchmarks.NAME`."""
