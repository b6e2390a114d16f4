"""Data set x methods x metrics: one example, many examples, and runs that can be stopped and continued."""
