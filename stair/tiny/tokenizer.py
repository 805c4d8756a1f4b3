"""A small byte-level BPE tokenizer, trained on the generated text and saved as an ordinary Hugging Face folder."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

END_OF_TEXT, IM_START, IM_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
THINK, THINK_END = "<think>", "</think>"
SPECIAL_TOKENS: tuple[str, ...] = (END_OF_TEXT, IM_START, IM_END)
# As in Qwen's tokenizers these two are single ids without being "special": decoding keeps them.
THINKING_TOKENS: tuple[str, ...] = (THINK, THINK_END)


def chat_template(thinking: bool) -> str:
    """The project's ChatML template, ``instruct.jinja`` or ``thinking.jinja``, as text."""
    name = "thinking.jinja" if thinking else "instruct.jinja"
    return (files("stair.tiny") / "templates" / name).read_text(encoding="utf-8")


def train_tokenizer(texts: Iterable[str], *, vocabulary: int, thinking: bool) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE of ``vocabulary`` entries on ``texts``; deterministic.

    Digits, line ends and the letters of options stand alone: a digit is one token wherever it is, and what ends a
    prompt never merges with the first characters of a response. Merges may cross spaces, so a fixed instruction costs
    a few tokens.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"(?<=\n)[A-D]\. |[0-9]|\n|[^0-9\n]+"), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - len(SPECIAL_TOKENS) - len(THINKING_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
        max_token_length=200,
    )
    # Tokens of their own must not be learned as merges too.
    own = re.compile("|".join(map(re.escape, (*SPECIAL_TOKENS, *THINKING_TOKENS))))
    tokenizer.train_from_iterator((piece for text in texts for piece in own.split(text)), trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS])
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in THINKING_TOKENS])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=IM_END,
        pad_token=END_OF_TEXT,
        clean_up_tokenization_spaces=False,
        model_max_length=4096,
    )
    fast.chat_template = chat_template(thinking)
    return fast


def save_tokenizer(tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write ``tokenizer.json``, ``tokenizer_config.json`` and ``chat_template.jinja`` into ``folder``."""
    tokenizer.save_pretrained(folder)
    config = folder / "tokenizer_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()), indent=2, sort_keys=True) + "\n")
