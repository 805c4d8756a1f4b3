"""What any job needs: a claim on its work, progress, signals, a GPU of its own, logs that survive it."""
