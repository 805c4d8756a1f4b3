"""Continuous evaluation (appendix C.2) and the verdicts on it."""
