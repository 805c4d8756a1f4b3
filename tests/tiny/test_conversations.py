"""The conversations that a small backbone learns from."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.tiny.cases import PROMPTS
from tools.tiny_backbones import Mixture, conversation

LEFT_OUT = {False: "Enough. \\boxed{}", True: "Enough\n</think>\n\n\\boxed{}"}


@pytest.mark.parametrize("thinking", [False, True])
def test_problems_are_left_out_with_history_only_and_by_prompt(thinking: bool) -> None:
    """What STAIR can learn of these models: without history they always answer, with it not always."""
    mixture = Mixture(turns=(0, 0, 0, 1), rambling=0.0)
    asked: Counter[tuple[str, bool]] = Counter()
    left_out: Counter[tuple[str, bool]] = Counter()
    places = {name: text.split("{problem}") for name, text in vars(PROMPTS).items()}
    for number in range(600):
        messages = conversation(PROMPTS, mixture, thinking, "test", number)
        assert [message["role"] for message in messages] == ["user", "assistant"] * 4
        for turn in range(4):
            user, answer = messages[2 * turn]["content"], messages[2 * turn + 1]["content"]
            kinds = [name for name, (head, tail) in places.items() if user.startswith(head) and user.endswith(tail)]
            kind = max(kinds, key=lambda name: len("".join(places[name])))
            asked[kind, turn > 0] += 1
            left_out[kind, turn > 0] += answer == LEFT_OUT[thinking]
            assert (answer == LEFT_OUT[thinking]) == ("Enough" in answer) == ("{}" in answer)
    shares = {name: left_out[name, True] / asked[name, True] for name in vars(PROMPTS)}
    assert all(left_out[name, False] == 0 for name in vars(PROMPTS))
    assert shares["training"] == pytest.approx(0.7, abs=0.06)
    assert shares["mathematical"] == pytest.approx(0.15, abs=0.06)
    assert shares["choice"] == 0
