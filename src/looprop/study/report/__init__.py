"""Reports of runs: tables beside the paper's, figures, one HTML page."""
