"""Mathematical expressions in LaTeX: reading, exact evaluation, equality. Nothing is ever executed as code."""
