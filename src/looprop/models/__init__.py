"""Models of every kind behind one interface: encode an input, run it, read the target off its logits."""
