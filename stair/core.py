"""Words that every layer shares. Imports nothing of this package."""

from __future__ import annotations

TURNS = 4
"""Turns of a session (section 2 of the paper), each on another problem."""

PLACEHOLDER = "{problem}"
"""Stands for the problem's text in the configuration's prompts."""


def user_message(prompt: str, problem: str) -> str:
    """The user message that asks a problem: the prompt with the problem's text in it."""
    return prompt.replace(PLACEHOLDER, problem)
