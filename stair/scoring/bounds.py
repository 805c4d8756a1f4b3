"""Limits that hold before an answer is read, so that a verdict depends on the answer and not on the machine's load."""

MAX_ANSWER_CHARACTERS = 4_000
"""Longer boxes are incorrect. The longest reference of MATH-500 has under 200 characters."""
