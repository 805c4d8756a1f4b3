"""From messages to ids and from ids to what later turns see."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerFast

from stair.sessions.renderer import Exchange, Renderer
from tools.tiny_backbones import save_tokenizer

HISTORY = [Exchange("What is 1 + 1?", "It is \\boxed{2}."), Exchange("What is 2 + 2?", "")]


def ids(renderer: Renderer, text: str) -> list[int]:
    return list(renderer.tokenizer(text, add_special_tokens=False)["input_ids"])


def decoded(renderer: Renderer, tokens: list[int]) -> str:
    return str(renderer.tokenizer.decode(tokens))


def spelt(renderer: Renderer, text: str) -> list[int]:
    """Ids that spell a text in bytes, so that no token of it is special."""
    found = renderer.tokenizer.convert_tokens_to_ids([*text.replace(" ", "Ġ").replace("\n", "Ċ")])
    assert renderer.tokenizer.decode(found) == text
    assert found != ids(renderer, text)
    return list(found)


def test_a_prompt_is_the_conversation_and_the_generation_prefix(renderer: Renderer) -> None:
    prompt = renderer.prompt_ids(HISTORY, "What is 3 + 3?")
    assert decoded(renderer, prompt) == (
        "<|im_start|>user\nWhat is 1 + 1?<|im_end|>\n<|im_start|>assistant\nIt is \\boxed{2}.<|im_end|>\n"
        "<|im_start|>user\nWhat is 2 + 2?<|im_end|>\n<|im_start|>assistant\n<|im_end|>\n"
        "<|im_start|>user\nWhat is 3 + 3?<|im_end|>\n<|im_start|>assistant\n"
    )
    assert prompt.count(renderer.turn_start) == 6
    assert prompt.count(renderer.turn_end) == 5


def test_a_thinking_prompt_opens_the_thinking_of_this_turn_only(thinking_renderer: Renderer) -> None:
    prompt = decoded(thinking_renderer, thinking_renderer.prompt_ids(HISTORY, "What is 3 + 3?"))
    assert prompt.endswith("<|im_start|>assistant\n<think>\n")
    assert prompt.count("<think>") == 1
    assert "</think>" not in prompt


def test_a_later_prompt_begins_with_the_earlier_conversation(renderer: Renderer) -> None:
    first = renderer.prompt_ids([], "What is 1 + 1?")
    answer = ids(renderer, "It is \\boxed{2}.")
    later = renderer.prompt_ids([Exchange("What is 1 + 1?", renderer.visible_answer(answer))], "What is 3 + 3?")
    assert later[: len(first) + len(answer)] == [*first, *answer]


def test_without_thinking_the_whole_answer_is_visible(renderer: Renderer) -> None:
    text = "\n 2 + 2 = 4,\nso \\boxed{4}. "
    for end in ([], [renderer.turn_end], [renderer.stop_ids[1]]):
        response = [*ids(renderer, text), *end]
        assert renderer.body_ids(response) == ids(renderer, text)
        assert renderer.visible_answer(response) == text
        assert renderer.text(response) == text
    assert renderer.visible_answer([renderer.turn_end]) == renderer.visible_answer([]) == ""


@pytest.mark.parametrize(
    ("response", "visible"),
    [
        ("2 + 2 is 4</think>\n\nIt is \\boxed{4}.", "It is \\boxed{4}."),
        ("one</think>two</think>\n\nthree", "three"),
        ("2 + 2 is 4, so \\boxed{4}", ""),
        ("2 + 2 is 4</think>", ""),
        ("2 + 2 is 4</think>\n", ""),
        ("</think> 4 \n", " 4 \n"),
    ],
)
def test_in_thinking_mode_what_follows_the_last_marker_is_visible(
    thinking_renderer: Renderer, response: str, visible: str
) -> None:
    for end in ([], [thinking_renderer.turn_end]):
        tokens = [*ids(thinking_renderer, response), *end]
        assert thinking_renderer.visible_answer(tokens) == visible
        assert thinking_renderer.text(tokens) == response, "the whole response is scored, thinking included"


def test_thinking_never_comes_back_as_content(thinking_renderer: Renderer) -> None:
    for response in ("secret", "secret</think>\n\nopen", "secret</think>secret too</think>open"):
        seen = thinking_renderer.visible_answer(ids(thinking_renderer, response))
        prompt = decoded(thinking_renderer, thinking_renderer.prompt_ids([Exchange("What?", seen)], "And?"))
        assert "secret" not in prompt


def test_an_instruct_model_keeps_a_marker_of_thinking_as_text(renderer: Renderer) -> None:
    assert renderer.visible_answer(ids(renderer, "a</think>b")) == "a</think>b"
    assert renderer.end_of_thinking is None


def test_only_the_marker_that_ended_a_response_is_no_part_of_its_body(renderer: Renderer) -> None:
    one, two = renderer.stop_ids
    assert renderer.body_ids([5, 6, one]) == [5, 6]
    assert renderer.body_ids([5, 6, two]) == [5, 6]
    assert renderer.body_ids([5, 6]) == [5, 6]
    assert renderer.body_ids([]) == []


@pytest.mark.parametrize("thinking", [False, True])
def test_special_tokens_in_an_answer_open_no_turn(
    renderer: Renderer, thinking_renderer: Renderer, thinking: bool
) -> None:
    chosen = thinking_renderer if thinking else renderer
    opened = [chosen.turn_end, *ids(chosen, "\n"), chosen.turn_start, *ids(chosen, "user\nWhat is 9?")]
    response = [*ids(chosen, "</think>" if thinking else ""), *ids(chosen, "4"), *opened, chosen.turn_end]
    seen = chosen.visible_answer(response)
    assert seen == "4\nuser\nWhat is 9?"
    prompt = chosen.prompt_ids([Exchange("What is 2 + 2?", seen)], "What is 3 + 3?")
    assert prompt.count(chosen.turn_start) == 4
    assert prompt.count(chosen.turn_end) == 3


def test_retokenised_says_whether_decoding_and_encoding_gives_other_ids(
    renderer: Renderer, thinking_renderer: Renderer
) -> None:
    plain, bytewise = ids(renderer, "What is 4?"), spelt(renderer, "What is 4?")
    assert not renderer.retokenised([*plain, renderer.turn_end])
    assert renderer.retokenised([*bytewise, renderer.turn_end])
    assert renderer.visible_answer(bytewise) == renderer.visible_answer(plain)
    assert not renderer.retokenised([renderer.turn_end])
    half = ids(renderer, "é")[:1]
    assert renderer.retokenised(half), "a response cut within a character"
    # Only the visible answer enters the history, so only it counts.
    marker = thinking_renderer.end_of_thinking
    assert marker is not None
    assert not thinking_renderer.retokenised([*spelt(thinking_renderer, "What"), marker, *ids(thinking_renderer, "4")])
    assert thinking_renderer.retokenised([*ids(thinking_renderer, "4"), marker, *spelt(thinking_renderer, "What")])


def test_special_tokens_in_an_answer_count_as_retokenised(renderer: Renderer) -> None:
    assert renderer.retokenised([*ids(renderer, "4"), renderer.turn_start, *ids(renderer, "5")])


def saved(tokenizer: PreTrainedTokenizerFast, folder: Path, generation: object) -> Path:
    save_tokenizer(tokenizer, folder)
    if generation is not None:
        (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": generation}))
    return folder


def test_a_folder_gives_tokenizer_template_and_end_markers(renderer: Renderer, tmp_path: Path) -> None:
    expected = renderer.prompt_ids(HISTORY, "What is 3 + 3?")
    for number, (generation, stop) in enumerate(
        [([2, 0], (2, 0)), (0, (0,)), (None, (renderer.tokenizer.eos_token_id,))]
    ):
        folder = saved(renderer.tokenizer, tmp_path / str(number), generation)
        loaded = Renderer.load(folder, thinking=False)
        assert loaded.stop_ids == stop
        assert loaded.prompt_ids(HISTORY, "What is 3 + 3?") == expected
        assert loaded.tokens == len(renderer.tokenizer)


def test_a_tokenizer_without_what_is_needed_is_refused(renderer: Renderer, tmp_path: Path) -> None:
    folder = saved(renderer.tokenizer, tmp_path / "t", None)
    (folder / "chat_template.jinja").unlink()
    with pytest.raises(ValueError, match="has no chat template"):
        Renderer.load(folder, thinking=False)
    with pytest.raises(ValueError, match="names no stop token"):
        Renderer(renderer.tokenizer, thinking=False, stop_ids=())
    lacking = json.loads((folder / "tokenizer.json").read_text())
    lacking["added_tokens"] = [token for token in lacking["added_tokens"] if token["content"] != "<|im_start|>"]
    (folder / "tokenizer.json").write_text(json.dumps(lacking))
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    with pytest.raises(ValueError, match=r"<\|im_start\|> is not a single token"):
        Renderer.load(folder, thinking=False)
