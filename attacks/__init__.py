"""Campaigns of our own against looprop: random programs, texts, files, models and kills. `python -m attacks --help`."""
