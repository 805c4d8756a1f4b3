"""Which of our tables is which of the paper's: the one place that knows the paper's labels."""

from __future__ import annotations

SUMMARY = "tab:continuous-summary"
POOLED = "tab:history-correctness-summary"
TRANSITIONS = "tab:native-accuracy"

_HISTORY = {"qwen3-4b-instruct": "qwen3", "qwen3.5-4b": "qwen35-4b", "qwen3.5-9b": "qwen35-9b"}
_TURNS = {
    "qwen3-4b-instruct": "qwen3_4b_instruct",
    "qwen3.5-4b": "qwen35_4b_thinking",
    "qwen3.5-9b": "qwen35_9b_thinking",
}


def history(model: str) -> str:
    """The artifact of `history_<model>`; a model that the paper does not have goes by its key."""
    return f"tab:history-{_HISTORY.get(model, model)}"


def turns(model: str) -> str:
    """The artifact of `turns_<model>`."""
    return f"tab:turns-{_TURNS.get(model, model)}"
