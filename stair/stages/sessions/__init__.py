"""The schedules of four-turn sessions. Imports no torch."""
