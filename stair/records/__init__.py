"""What is written to disk, and how: names to seeds, keys, work logs, seals, manifests. Imports no torch."""
