"""Random small networks, and their relevance computed by hand."""
