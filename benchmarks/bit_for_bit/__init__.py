"""A record of every number that the public interface gives, to be compared after a move that must change none."""
