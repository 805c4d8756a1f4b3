"""What is written to disk, and how: names to seeds, keys, work logs, manifests, claims of work, progress. Imports no torch."""
