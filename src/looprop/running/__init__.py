"""Who computes, what is kept, and how a run that stopped goes on. Knows nothing of methods or metrics."""
