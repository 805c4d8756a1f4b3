"""Training of controllers on replayed sessions (appendices B.4, C and D.1)."""
