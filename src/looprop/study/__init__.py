"""The study of the paper as data: specifications, what runs them, published numbers and verdicts."""
