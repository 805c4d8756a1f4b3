"""Training responses: four for every source record (appendix D.1)."""
