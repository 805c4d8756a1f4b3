"""The tokenizer and the chat templates of the small backbones."""

from __future__ import annotations

from pathlib import Path

import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from tests.tiny.cases import PROMPTS, texts
from tools.tiny_backbones import SPECIAL, THINKING_TOKENS, Mixture, conversation, save_tokenizer, train_tokenizer
from tools.tiny_backbones import encode as encode_examples


@pytest.fixture(scope="module", params=[False, True], ids=["instruct", "thinking"])
def thinking(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(scope="module")
def tokenizer(thinking: bool) -> PreTrainedTokenizerFast:
    return train_tokenizer(texts(thinking), vocabulary=500, thinking=thinking)


def encode(tokenizer: PreTrainedTokenizerFast, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def test_markers_are_single_ids(tokenizer: PreTrainedTokenizerFast) -> None:
    for token in (*SPECIAL, *THINKING_TOKENS):
        assert encode(tokenizer, f"a{token}\nb").count(tokenizer.get_vocab()[token]) == 1
        assert tokenizer.get_vocab()[token] < len(tokenizer) == 500
    assert tokenizer.decode(encode(tokenizer, "<think>x</think>"), skip_special_tokens=True) == "<think>x</think>"
    assert tokenizer.decode(encode(tokenizer, "x<|im_end|>"), skip_special_tokens=True) == "x"


def test_digits_and_line_ends_stand_alone(tokenizer: PreTrainedTokenizerFast) -> None:
    for token in tokenizer.get_vocab():
        text = tokenizer.convert_tokens_to_string([token])
        if token not in THINKING_TOKENS and (any(c.isdigit() for c in text) or "\n" in text):
            assert len(text) == 1


@pytest.mark.parametrize("text", ["12 + 7 = 19\n", "naïve — π ≈ 3.14\n\n\tx", "\\boxed{\\frac{3}{4}}", "数学 🙂"])
def test_round_trip(tokenizer: PreTrainedTokenizerFast, text: str) -> None:
    assert tokenizer.decode(encode(tokenizer, text)) == text


def test_a_fixed_instruction_costs_few_tokens(tokenizer: PreTrainedTokenizerFast) -> None:
    for prompt in vars(PROMPTS).values():
        assert len(encode(tokenizer, prompt.split("{problem}")[0])) <= 12


def test_training_is_deterministic_and_survives_saving(
    tokenizer: PreTrainedTokenizerFast, thinking: bool, tmp_path: Path
) -> None:
    again = train_tokenizer(texts(thinking), vocabulary=500, thinking=thinking)
    for name, made in (("a", tokenizer), ("b", again)):
        save_tokenizer(made, tmp_path / name)
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert files == ["chat_template.jinja", "tokenizer.json", "tokenizer_config.json"]
    assert all((tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes() for name in files)
    loaded = AutoTokenizer.from_pretrained(tmp_path / "a")
    assert loaded.get_vocab() == tokenizer.get_vocab()
    assert loaded.chat_template == tokenizer.chat_template


MESSAGES = [
    {"role": "user", "content": "One?"},
    {"role": "assistant", "content": "why\n</think>\n\n\\boxed{1}"},
    {"role": "user", "content": "Two?"},
]


def test_the_generation_prefix_and_the_history(tokenizer: PreTrainedTokenizerFast, thinking: bool) -> None:
    prompt = tokenizer.apply_chat_template(MESSAGES, tokenize=False, add_generation_prompt=True)
    answer = "\\boxed{1}" if thinking else "why\n</think>\n\n\\boxed{1}"
    assert prompt == (
        f"<|im_start|>user\nOne?<|im_end|>\n<|im_start|>assistant\n{answer}<|im_end|>\n"
        "<|im_start|>user\nTwo?<|im_end|>\n<|im_start|>assistant\n" + ("<think>\n" if thinking else "")
    )


def test_an_empty_answer_stays_an_empty_message(tokenizer: PreTrainedTokenizerFast) -> None:
    messages = [MESSAGES[0], {"role": "assistant", "content": ""}, MESSAGES[2]]
    prompt = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert "<|im_start|>assistant\n<|im_end|>\n<|im_start|>user\nTwo?" in prompt


def test_a_training_text_begins_with_the_prompt_that_generation_will_see(
    tokenizer: PreTrainedTokenizerFast, thinking: bool
) -> None:
    """Targets are exactly the ids that stand after the generation prompt's, end marker included."""
    for number in range(30):
        messages = conversation(PROMPTS, Mixture(rambling=0.2), thinking, "test", number)
        (example,) = encode_examples(tokenizer, thinking, [messages])
        wanted = [False] * len(example.ids)
        for turn in range(1, len(messages), 2):
            prompt = encode(
                tokenizer,
                tokenizer.apply_chat_template(messages[:turn], tokenize=False, add_generation_prompt=True),
            )
            response = encode(tokenizer, messages[turn]["content"] + "<|im_end|>")
            if thinking and turn != len(messages) - 1:
                continue
            assert example.ids[: len(prompt) + len(response)] == prompt + response
            wanted[len(prompt) : len(prompt) + len(response)] = [True] * len(response)
        assert example.targets == wanted
