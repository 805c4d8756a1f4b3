"""Training responses: four for every source record (appendix C.1)."""
