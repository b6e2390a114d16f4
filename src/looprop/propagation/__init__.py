"""Relevance propagation: the paper's equations, the plan that chooses among them, and the mode that applies them."""
