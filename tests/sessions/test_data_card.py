"""What a data card says of the benchmarks."""

from __future__ import annotations

from pathlib import Path

from stair.config.resolve import resolve
from stair.stages.rollouts.card import held_apart

ROOT = Path(__file__).parents[2]


def test_only_benchmarks_that_were_looked_for_are_said_to_be_left_out() -> None:
    """AMC23's questions stay in the pools of the 4B models; six of them in all pools (appendix B.4)."""
    config = resolve(ROOT, {"run": "paper"})
    small, large = held_apart(config, "qwen3-4b-instruct"), held_apart(config, "qwen3.5-9b")
    three = "Problems that equal a question of MATH-500, AIME 2025, GPQA-Diamond"
    assert small.startswith(f"{three} by normalised text are left out. Questions of AMC23 were not looked for")
    assert large.startswith(
        f"{three}, AMC23 (but for the 6 that its evaluation leaves out) by normalised text are left out."
    )
    assert "were not looked for" not in large
    none = resolve(ROOT, {"run": "paper", "training_pool": {"exclude_benchmarks": [], "exclude_more": None}})
    assert held_apart(none, "qwen3.5-9b").startswith("No benchmark's questions were looked for.")
