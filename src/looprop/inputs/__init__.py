"""What comes in: data sets, texts of one's own, demo sentences, partitions of tokens into features."""
