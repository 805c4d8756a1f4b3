"""Measurements. A package, so that a library of the same name does not stand in front of it."""
