"""Continuous evaluation (appendix D.2) and the verdicts on it."""
