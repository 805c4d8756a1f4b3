"""Limits that hold before and while an answer is read, so that a verdict depends on the answer and on nothing else.

An answer beyond them is compared by its text only. None of them is a time: the verdict is the same on a loaded machine.
"""

MAX_ANSWER_CHARACTERS = 4_000
"""Longer boxes are incorrect. The longest reference of MATH-500 has under 200 characters."""

MAX_TOKENS = 800
MAX_NESTING = 60
"""Depth of brackets and of arguments without brackets."""

MAX_BITS = 60_000
"""Size of an exact number: 2^60000 and 5000! are computed, 9^(9^9) is not."""

MAX_WORK = 6_000_000
"""What one comparison may spend: about the bits of all its intermediate results."""

MAX_FACTORIAL = 5_000
MAX_EXPONENT = 100_000
"""Magnitude of the natural logarithm of an inexact number."""

MAX_TERMS = 1_000
"""Terms of a series that are added up; longer ones are compared by how they are built."""

MAX_ITEMS = 40
"""Answers in one list, set or union."""

MAX_SIGNS = 3
"""Plus-minus signs in one answer: eight values."""


class TooComplex(Exception):
    """The answer is beyond what the scorer computes."""
