"""What this machine can run: each finding with its remedy. Imports no torch."""
