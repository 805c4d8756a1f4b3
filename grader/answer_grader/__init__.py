"""Grades the final answers of language models against references: `grade` for one response, `grade_many` for many."""

from answer_grader.drop_in import parse, verify
from answer_grader.grading import grade
from answer_grader.pool import Limits, grade_many
from answer_grader.verdict import Item, Kind, Outcome, Verdict

__all__ = ["Item", "Kind", "Limits", "Outcome", "Verdict", "grade", "grade_many", "parse", "verify"]
__version__ = "0.1.0"
