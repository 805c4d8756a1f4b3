"""Four-turn sessions: they only build schedules. Imports no torch."""
