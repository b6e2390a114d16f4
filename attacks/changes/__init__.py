"""Models that change between explanations: each explanation must be that of the model as it is now."""
