"""Training of controllers on replayed sessions (appendices B.4, B.5 and C.1)."""
