"""Data sets: reading, normalisation, problem identity, exclusion. Imports no torch."""
