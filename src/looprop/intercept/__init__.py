"""Modes that answer chosen torch functions in a model's place: attention sites, rows, look-ups, sums over rows."""
