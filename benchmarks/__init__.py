"""Measurements. A package, so that an installed library of the same name does not hide it."""
