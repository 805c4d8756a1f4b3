"""Checks of a run's data against the invariants of the protocol. Imports no torch."""
