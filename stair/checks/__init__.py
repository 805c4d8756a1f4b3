"""The invariants of the protocol, held against the data at hand. Imports no torch."""
