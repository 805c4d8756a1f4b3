"""Every number that follows from response rows: metrics, intervals, paired tests. Takes frames and plain values."""
