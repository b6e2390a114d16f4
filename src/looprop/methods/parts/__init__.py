"""What methods share: one pass under a plan, the line of integrated gradients, attention by layers, games."""
