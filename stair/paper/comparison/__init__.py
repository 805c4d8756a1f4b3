"""A run's numbers beside the paper's printed values: kinds of numbers, verdicts, `comparison.csv`."""
