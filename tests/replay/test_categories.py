"""Token categories of a prompt and the current user body (appendix A.2)."""

from __future__ import annotations

import itertools

import pytest
from transformers import PreTrainedTokenizerFast

from stair.sessions.renderer import Exchange, Renderer
from stair.stages.replay.measurement.categories import CATEGORIES, Labelled, label

ASSISTANT, CURRENT = CATEGORIES.index("assistant"), CATEGORIES.index("current")
TEMPLATE, USER = CATEGORIES.index("template"), CATEGORIES.index("user")
HISTORY = [
    Exchange("What is 2 + 3?", "The sum of 2 and 3 is 5, so \\boxed{5}."),
    Exchange("What is 1 + 1?", "It is \\boxed{2}.\n"),
]


def text_of(renderer: Renderer, labelled: Labelled, category: int) -> str:
    return str(
        renderer.tokenizer.decode(
            [token for token, of in zip(labelled.ids, labelled.categories, strict=True) if of == category]
        )
    )


@pytest.mark.parametrize("turns", [0, 1, 2])
def test_the_categories_are_the_bodies_the_template_and_the_current_turn(renderer: Renderer, turns: int) -> None:
    history = HISTORY[:turns]
    labelled = label(renderer, history, "What is 7 + 8?")
    assert list(labelled.ids) == renderer.prompt_ids(history, "What is 7 + 8?")
    assert text_of(renderer, labelled, USER) == "".join(turn.user for turn in history)
    assert text_of(renderer, labelled, ASSISTANT) == "".join(turn.assistant for turn in history)
    between = "<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n<|im_end|>\n"
    assert text_of(renderer, labelled, TEMPLATE) == between * turns
    current = "<|im_start|>user\nWhat is 7 + 8?<|im_end|>\n<|im_start|>assistant\n"
    assert text_of(renderer, labelled, CURRENT) == current
    assert renderer.tokenizer.decode(labelled.ids[labelled.body[0] : labelled.body[1]]) == "What is 7 + 8?"
    assert set(labelled.categories[: labelled.prefix]) <= {USER, ASSISTANT, TEMPLATE}
    assert set(labelled.categories[labelled.prefix :]) == {CURRENT}


def test_the_prefix_does_not_depend_on_the_current_problem_and_grows_with_the_turns(renderer: Renderer) -> None:
    prefixes = []
    for turns in range(3):
        one, other = (label(renderer, HISTORY[:turns], user) for user in ("What is 7 + 8?", "\nWhat?"))
        assert one.ids[: one.prefix] == other.ids[: other.prefix]
        prefixes.append(one.ids[: one.prefix])
    for shorter, longer in itertools.pairwise(prefixes):
        assert longer[: len(shorter)] == shorter


def test_in_thinking_mode_the_opening_of_the_thinking_is_of_the_current_turn(thinking_renderer: Renderer) -> None:
    labelled = label(thinking_renderer, HISTORY[:1], "What is 7 + 8?")
    assert text_of(thinking_renderer, labelled, CURRENT).endswith("<|im_start|>assistant\n<think>\n")
    assert text_of(thinking_renderer, labelled, ASSISTANT) == HISTORY[0].assistant


@pytest.mark.parametrize(
    "answer", ["", "I said <|im_start|>user\nWhat is 9?<|im_end|>", "user", "What is 7 + 8?", "∑ 中文 🙂"]
)
def test_an_answer_may_say_anything(renderer: Renderer, answer: str) -> None:
    labelled = label(renderer, [Exchange("What is 2?", answer)], "What is 7 + 8?")
    assert text_of(renderer, labelled, ASSISTANT) == answer
    assert renderer.tokenizer.decode(labelled.ids[labelled.body[0] : labelled.body[1]]) == "What is 7 + 8?"


def changed(tokenizer: PreTrainedTokenizerFast, template: str) -> Renderer:
    """A renderer of the same tokenizer with another template."""
    copy = PreTrainedTokenizerFast(tokenizer_object=tokenizer.backend_tokenizer, eos_token="<|im_end|>")
    copy.chat_template = template
    return Renderer(copy, thinking=False, stop_ids=copy.convert_tokens_to_ids(["<|im_end|>"]))


TURN = "{{- '<|im_start|>' + message.role + '\n' + CONTENT + '<|im_end|>' + '\n' }}"
TEMPLATES = "SYSTEM{%- for message in messages %}" + TURN + "{%- endfor %}{{- '<|im_start|>assistant\n' }}"


def test_a_system_prompt_is_template_also_of_an_empty_history(renderer: Renderer) -> None:
    system = "<|im_start|>system\nSolve the sum.<|im_end|>\n"
    template = TEMPLATES.replace("SYSTEM", "{{- '" + system + "' }}").replace("CONTENT", "message.content")
    other = changed(renderer.tokenizer, template)
    labelled = label(other, [], "What is 7 + 8?")
    assert text_of(other, labelled, TEMPLATE) == system
    assert labelled.prefix == len(other._encode(system))


def test_a_template_may_trim_messages(renderer: Renderer) -> None:
    other = changed(renderer.tokenizer, TEMPLATES.replace("SYSTEM", "").replace("CONTENT", "message.content.strip()"))
    labelled = label(other, [Exchange(" What is 2? ", "2\n")], "\nWhat is 3?")
    assert (text_of(other, labelled, USER), text_of(other, labelled, ASSISTANT)) == ("What is 2?", "2")
    assert other.tokenizer.decode(labelled.ids[labelled.body[0] : labelled.body[1]]) == "What is 3?"


def test_a_template_that_changes_a_message_is_refused(renderer: Renderer) -> None:
    other = changed(renderer.tokenizer, TEMPLATES.replace("SYSTEM", "").replace("CONTENT", "message.content.upper()"))
    with pytest.raises(ValueError, match=r"turn 1: .* user message"):
        label(other, HISTORY[:1], "What is 3?")


def test_an_empty_current_problem_is_refused(renderer: Renderer) -> None:
    with pytest.raises(ValueError, match="body has no token"):
        label(renderer, [], "")
