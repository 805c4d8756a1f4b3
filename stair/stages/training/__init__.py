"""Training of controllers on teacher-forced sessions (appendices B.4, B.5 and C.1)."""
