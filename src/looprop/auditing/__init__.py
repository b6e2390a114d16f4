"""Does an explanation depend on how the model is written? Equivalent rewrites, their proof, sanity checks, verdicts."""
