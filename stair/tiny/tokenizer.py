"""A small byte-level BPE tokenizer, trained on the generated text and saved as an ordinary Hugging Face folder."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from stair.models.turn_markers import CHATML, TurnMarkers

END_OF_TEXT = "<|endoftext|>"
THINK, THINK_END = "<think>", "</think>"
# As in Qwen's tokenizers these two are single ids without being "special": decoding keeps them.
THINKING_TOKENS: tuple[str, ...] = (THINK, THINK_END)


def special_tokens(markers: TurnMarkers = CHATML) -> tuple[str, ...]:
    """The end of a text, and the markers of turns."""
    return (END_OF_TEXT, markers.start, markers.end, *markers.others)


def chat_template(thinking: bool, markers: TurnMarkers = CHATML) -> str:
    """The project's template, ``instruct.jinja`` or ``thinking.jinja``, with an architecture's markers, as text."""
    name = "thinking.jinja" if thinking else "instruct.jinja"
    text = (files("stair.tiny") / "templates" / name).read_text(encoding="utf-8")
    if markers == CHATML:
        return text
    # Longer pieces first. ChatML's template as a whole stays as it is, because models' digests contain it.
    for part, other in (
        ("message.role + '\\n'", f"message.role + {_quoted(markers.after_role)}"),
        ("assistant\\n", f"assistant{_quoted(markers.after_role)[1:-1]}"),
        ("'<|im_end|>' + '\\n'", _quoted(markers.end + markers.between)),
        (CHATML.start, markers.start),
    ):
        text = text.replace(part, other)
    return f"{{{{- {_quoted(markers.opening)} }}}}" + text


def _quoted(text: str) -> str:
    """A string of Jinja's."""
    return "'" + text.replace("\n", "\\n") + "'"


def train_tokenizer(
    texts: Iterable[str], *, vocabulary: int, thinking: bool, markers: TurnMarkers = CHATML
) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE of ``vocabulary`` entries on ``texts``; deterministic.

    Digits, line ends and the letters of options stand alone: a digit is one token wherever it is, and what ends a
    prompt never merges with the first characters of a response. Merges may cross spaces, so a fixed instruction costs
    a few tokens.
    """
    special = special_tokens(markers)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"(?<=\n)[A-D]\. |[0-9]|\n|[^0-9\n]+"), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - len(special) - len(THINKING_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
        max_token_length=200,
    )
    # Tokens of their own must not be learned as merges too.
    own = re.compile("|".join(map(re.escape, (*special, *THINKING_TOKENS))))
    tokenizer.train_from_iterator((piece for text in texts for piece in own.split(text)), trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in THINKING_TOKENS])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=markers.end,
        pad_token=END_OF_TEXT,
        clean_up_tokenization_spaces=False,
        model_max_length=4096,
    )
    fast.chat_template = chat_template(thinking, markers)
    return fast


def save_tokenizer(tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write ``tokenizer.json``, ``tokenizer_config.json`` and ``chat_template.jinja`` into ``folder``."""
    tokenizer.save_pretrained(folder)
    config = folder / "tokenizer_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()), indent=2, sort_keys=True) + "\n")
