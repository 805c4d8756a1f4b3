"""From messages to token ids and from response ids to text, by the model's own tokenizer and chat template."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stair.core import capture_length
from stair.models.architecture import FAMILIES
from stair.models.turn_markers import CHATML, TurnMarkers
from stair.records.files import read_mapping

END_OF_THINKING = "</think>"


@dataclass(frozen=True)
class Exchange:
    """An earlier turn of the visible conversation."""

    user: str
    assistant: str


class Renderer:
    """Renders conversations for one model.

    Args:
        thinking: whether the model is used in thinking mode.
        stop_ids: the model's end markers.

    Raises:
        ValueError: the tokenizer lacks a marker as a single id, or has no chat template.
    """

    def __init__(self, tokenizer: Any, *, thinking: bool, stop_ids: Sequence[int]) -> None:
        self.tokenizer, self.thinking = tokenizer, thinking
        # Its own encoding: the wrapper's call prepares for padding and batches besides.
        self._encoder = tokenizer.backend_tokenizer
        self._encoder.no_truncation()
        self._encoder.no_padding()
        self.stop_ids = tuple(stop_ids)
        if not getattr(tokenizer, "chat_template", None):
            raise ValueError(f"the tokenizer of {tokenizer.name_or_path} has no chat template")
        self.markers = self._markers()
        self.turn_start = self._single(self.markers.start)
        self.turn_end = self._single(self.markers.end)
        self.end_of_thinking = self._single(END_OF_THINKING) if thinking else None
        self.user_header = (self.turn_start, *self._encode("user"))
        if not self.stop_ids:
            raise ValueError(f"{tokenizer.name_or_path} names no stop token")

    @classmethod
    def load(cls, folder: Path | str, *, thinking: bool) -> Renderer:
        """Reads tokenizer, template and stop ids from a model folder; imports no torch."""
        # AutoTokenizer would import torch; tokenizer.json holds all that is needed.
        from transformers import PreTrainedTokenizerFast

        try:
            tokenizer = PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)
        except Exception as error:  # the tokenizers library raises plain ones
            raise ValueError(f"the tokenizer in {folder} cannot be read: {error}") from error
        return cls(tokenizer, thinking=thinking, stop_ids=_stop_ids(Path(folder), tokenizer))

    @property
    def template_sha256(self) -> str:
        return hashlib.sha256(str(self.tokenizer.chat_template).encode()).hexdigest()

    @property
    def tokens(self) -> int:
        """The number of the tokenizer's tokens; a model's vocabulary can be padded."""
        return len(self.tokenizer)

    def _markers(self) -> TurnMarkers:
        """The known markers whose first one is a token of the tokenizer; ChatML's if none is."""
        known = (family.markers for family in FAMILIES.values())
        return next((markers for markers in known if len(self._encode(markers.start)) == 1), CHATML)

    def _single(self, marker: str) -> int:
        ids = self._encode(marker)
        if len(ids) != 1:
            raise ValueError(f"{marker} is not a single token of {self.tokenizer.name_or_path}")
        return ids[0]

    def _encode(self, text: str) -> list[int]:
        return list(self._encoder.encode(text, add_special_tokens=False).ids)

    def encode_places(self, text: str) -> tuple[list[int], list[range]]:
        """A text's ids and the characters that each id covers. Ids of one character share its place.

        Raises ValueError if the places have gaps: white space would belong to no token.
        """
        encoding = self._encoder.encode(text, add_special_tokens=False)
        places, end = [], 0
        for start, stop in encoding.offsets:
            if start > end or stop <= start:
                raise ValueError(f"{self.tokenizer.name_or_path}: the tokenizer reports no place of {text[end:stop]!r}")
            places.append(range(start, stop))
            end = stop
        return list(encoding.ids), places

    def prompt_text(self, history: Sequence[Exchange], user: str) -> str:
        """A prompt as the template writes it. Raises ValueError if it cannot be rendered."""
        messages = []
        for exchange in history:
            messages.append({"role": "user", "content": exchange.user})
            messages.append({"role": "assistant", "content": exchange.assistant})
        messages.append({"role": "user", "content": user})
        try:
            text = self.tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True, enable_thinking=self.thinking
            )
        except Exception as error:  # a template is a program: it can raise anything
            raise ValueError(
                f"the chat template of {self.tokenizer.name_or_path} cannot be rendered: {type(error).__name__}: {error}"
            ) from error
        return str(text)

    def prompt_ids(self, history: Sequence[Exchange], user: str) -> list[int]:
        """The full conversation input of a turn: history, current user message, generation prefix. No system message."""
        return self._encode(self.prompt_text(history, user))

    def body_ids(self, response_ids: Sequence[int]) -> list[int]:
        """A response without its end marker."""
        ids = list(response_ids)
        return ids[:-1] if ids and ids[-1] in self.stop_ids else ids

    def captured_tokens(self, response_ids: Sequence[int]) -> int:
        """The number of states that a response gives to the bank (appendix B.1): the token drawn last has none."""
        return capture_length(response_ids, end_of_thinking=self.end_of_thinking, stop_ids=self.stop_ids)

    def visible_answer(self, response_ids: Sequence[int]) -> str:
        """The visible answer: the whole response, or in thinking mode the text after the last `</think>`.

        Without that marker it is empty (appendix B.1). Special tokens are omitted, so that an answer cannot open a turn.
        """
        ids = answer_ids(self.body_ids(response_ids), self.end_of_thinking)
        return self.tokenizer.decode(ids, skip_special_tokens=True).lstrip("\n" if self.thinking else "")

    def retokenised(self, response_ids: Sequence[int]) -> bool:
        """Whether the visible answer, decoded and encoded again, has other ids."""
        ids = answer_ids(self.body_ids(response_ids), self.end_of_thinking)
        return self._encode(self.tokenizer.decode(ids, skip_special_tokens=True)) != list(ids)

    def text(self, response_ids: Sequence[int]) -> str:
        """The whole response as text, with thinking, without end markers."""
        return self.tokenizer.decode(self.body_ids(response_ids), skip_special_tokens=True)


def _stop_ids(folder: Path, tokenizer: Any) -> list[int]:
    """The end markers of the model's generation configuration, else the tokenizer's."""
    path = folder / "generation_config.json"
    stop = read_mapping(path).get("eos_token_id") if path.is_file() else None
    if stop is None:
        path, stop = folder / "tokenizer_config.json", tokenizer.eos_token_id
    stops = stop if isinstance(stop, list) else [] if stop is None else [stop]
    if any(not isinstance(one, int) or isinstance(one, bool) for one in stops):
        raise ValueError(f"{path}: eos_token_id is {stop!r}, expected an id or a list of ids")
    return stops


# ---------------------------------------------------------------- parts of a sequence of ids


def control_span(prompt_ids: Sequence[int], user_header: Sequence[int]) -> tuple[int, int]:
    """The control span of a prompt (appendix B.3): from the last user header to the prompt's end.

    Args:
        user_header: the ids that open a user message, such as those of `<|im_start|>user`.

    Returns:
        Start and end (exclusive) as positions in the prompt. The span contains the user body, template tokens, the assistant's
        generation prefix and, in thinking mode, the opening `<think>`.

    Raises:
        ValueError: the prompt has no user header.
    """
    header = list(user_header)
    for start in range(len(prompt_ids) - len(header), -1, -1):
        if list(prompt_ids[start : start + len(header)]) == header:
            return start, len(prompt_ids)
    raise ValueError("the prompt has no user header, so there is no span to control")


def last_position(ids: Sequence[int], marker: int) -> int | None:
    """The last position of `marker`, or None."""
    for position in range(len(ids) - 1, -1, -1):
        if ids[position] == marker:
            return position
    return None


def answer_ids(body: Sequence[int], end_of_thinking: int | None) -> list[int]:
    """The final answer in a response body: all of it without thinking, else the ids after the last `</think>`.

    A thinking response without the marker has no answer: an empty list (appendix B.1).
    """
    if end_of_thinking is None:
        return list(body)
    split = last_position(body, end_of_thinking)
    return [] if split is None else list(body[split + 1 :])
