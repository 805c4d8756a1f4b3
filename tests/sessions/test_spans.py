"""The control span (appendix B.3) and the split of thinking (appendix B.1), by token ids."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stair.sessions.renderer import Exchange, Renderer, answer_ids, control_span, last_position
from tests.sessions.conftest import Finished
from tests.sessions.protocol_cases import PROBLEMS


def span_text(renderer: Renderer, history: list[Exchange], user: str) -> str:
    """The text that the control span of a prompt covers."""
    prompt = renderer.prompt_ids(history, user)
    start, end = control_span(prompt, renderer.user_header)
    assert end == len(prompt), "the last prompt token lies in the span"
    return str(renderer.tokenizer.decode(prompt[start:end]))


@pytest.mark.parametrize("turns", [0, 1, 3])
def test_the_span_goes_from_the_last_user_header_to_the_prompts_end(renderer: Renderer, turns: int) -> None:
    history = [Exchange(f"What is {turn}?", f"It is \\boxed{{{turn}}}.") for turn in range(turns)]
    expected = "<|im_start|>user\nWhat is 3 + 3?<|im_end|>\n<|im_start|>assistant\n"
    assert span_text(renderer, history, "What is 3 + 3?") == expected


def test_in_thinking_mode_the_opening_of_the_thinking_lies_in_the_span(thinking_renderer: Renderer) -> None:
    expected = "<|im_start|>user\nWhat is 3 + 3?<|im_end|>\n<|im_start|>assistant\n<think>\n"
    assert span_text(thinking_renderer, [Exchange("What is 2?", "2")], "What is 3 + 3?") == expected


@pytest.mark.parametrize("answer", ["<|im_start|>user", "I said <|im_start|>user\nWhat is 9?", "user", "<|im_start|>"])
def test_an_earlier_answer_with_that_text_does_not_move_the_span(renderer: Renderer, answer: str) -> None:
    expected = "<|im_start|>user\nWhat is 3 + 3?<|im_end|>\n<|im_start|>assistant\n"
    assert span_text(renderer, [Exchange("What is 2?", answer)], "What is 3 + 3?") == expected


@pytest.mark.parametrize("condition", ["stair", "own_first"])
def test_in_a_session_the_span_is_the_prompt_of_its_question_alone(finished: Finished, condition: str) -> None:
    """Rows and requests, beside prompts that are rendered without a history."""
    alone = {key: finished.study.renderer.prompt_ids([], problem.user) for key, problem in PROBLEMS.items()}
    later = [row for row in finished.rows[condition] if row["turn"] > 1]
    assert [row["controlled_tokens"] for row in later] == [len(alone[row["problem_id"]]) for row in later]
    requests = [each for each in finished.engines[condition].requests.values() if each.read is not None]
    assert len(requests) == len(later)
    for request in requests:
        start, end = request.read.span
        assert list(request.prompt_ids[start:end]) in [list(ids) for ids in alone.values()]
        assert end == len(request.prompt_ids)


def test_the_last_of_several_headers_counts() -> None:
    assert control_span([1, 2, 9, 1, 2, 7, 8], (1, 2)) == (3, 7)
    assert control_span([1, 2], (1, 2)) == (0, 2)
    assert control_span([1, 1, 2, 1], (1, 2)) == (1, 4)


@pytest.mark.parametrize("prompt", [[], [1], [2, 1], [1, 3, 2]])
def test_a_prompt_without_a_header_is_refused(prompt: list[int]) -> None:
    with pytest.raises(ValueError, match="no user header"):
        control_span(prompt, (1, 2))


tokens = st.lists(st.integers(0, 4), max_size=12)


@given(before=tokens, after=tokens)
def test_the_answer_is_what_follows_the_last_marker(before: list[int], after: list[int]) -> None:
    answer = [token for token in after if token != 4]
    assert answer_ids([*before, 4, *answer], 4) == answer
    assert answer_ids(before, None) == before
    assert answer_ids([token for token in before if token != 4], 4) == []


@given(tokens, st.integers(0, 4))
def test_the_last_position_is_the_last(body: list[int], marker: int) -> None:
    found = last_position(body, marker)
    if found is None:
        assert marker not in body
    else:
        assert body[found] == marker
        assert marker not in body[found + 1 :]
