"""The required properties of a tokenizer, a chat template and weights; the first two on rendered conversations, without torch.

The paper's conversations (appendices B.1, B.3, C.1, C.2) fix every id of a prompt: no system message, user and assistant turns
between their markers, a generation prefix of the mode, earlier answers without their thinking. Any other template would change
prompts silently. The first property that does not hold stops the run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stair.core import TURNS
from stair.records.files import matching
from stair.sessions.renderer import END_OF_THINKING, Exchange, Renderer
from stair.sessions.spans import control_span

_USER, _AGAIN = "What is 1 + 2?", "And what is 3 + 4?"
_ANSWER, _THOUGHT = "It is \\boxed{3}.", "One and two are three"
_HISTORIES = {
    "one turn": [],
    "a later turn": [Exchange(_USER, _ANSWER)],
    "after an empty answer": [Exchange(_USER, "")],
    "the third turn": [Exchange(_USER, _ANSWER), Exchange(_AGAIN, _ANSWER)],
    "the fourth turn": [Exchange(_USER, _ANSWER), Exchange(_AGAIN, ""), Exchange(_USER, _ANSWER)],
}
"""Histories of the examples; an answer is empty if thinking did not end."""

_CONTENTS = {
    "several lines": "First, **bold**, `code`.\n\n  1. indented\n\t2. tabbed  \n\n\nLast: $x^2 < 3$ & \\frac{1}{2} \"so\" 'so'.",
    "other scripts": "Sei α ≤ ½; 求 x² 的值。 Ωмега é e\u0301 \U0001d54f",
    "what looks like a template": "{{ messages }} {% if x %} {# y #} <tool_response> [INST] <s> /no_think",
    "a long text": " ".join(
        f"Step {number}: add {number} to the sum, which is \\boxed{{{number}}}." for number in range(200)
    ),
}
"""Texts that a template must not change."""
_SPACED = " \n\n A text between white space. \t\n\n"
_OUTER: dict[str, Callable[[str], str]] = {
    "as they are": lambda text: text,
    "without outer white space": lambda text: text.strip(),
    "without leading line ends": lambda text: text.lstrip("\n"),
    "without outer line ends": lambda text: text.strip("\n"),
}
"""The treatments of outer white space that a template may have."""


@dataclass(frozen=True)
class Outer:
    """A template's treatment of outer white space, by keys of `_OUTER`."""

    user: str = "as they are"
    assistant: str = "as they are"


class PropertyError(ValueError):
    """A property that does not hold; the message is one readable line."""


@dataclass(frozen=True)
class Property:
    name: str
    text: str


def generation_prefix(renderer: Renderer) -> str:
    """The end of a prompt in the chat template, after the last user message (appendix C.1)."""
    opened = renderer.thinking and not _opens_thinking(renderer)
    return renderer.markers.header("assistant") + ("<think>\n" if opened else "")


def _opens_thinking(renderer: Renderer) -> bool:
    """Whether the model writes `<think>` itself, as Qwen3's models of two modes do.

    Their template closes an empty block where thinking is off, and adds nothing where it is on.
    """
    off = Renderer(renderer.tokenizer, thinking=False, stop_ids=renderer.stop_ids)
    return off.prompt_text([], _USER) == f"{renderer.prompt_text([], _USER)}<think>\n\n{END_OF_THINKING}\n\n"


def conversation_text(renderer: Renderer, history: list[Exchange], user: str, outer: Outer | None = None) -> str:
    """A prompt by the paper's protocol, written out; the templates must render the same."""
    return renderer.markers.opening + _turns_text(renderer, history, user, outer or Outer())


def _turns_text(renderer: Renderer, history: list[Exchange], user: str, outer: Outer) -> str:
    """The text of `conversation_text` after the conversation's opening."""
    markers, strip_user, strip_assistant = renderer.markers, _OUTER[outer.user], _OUTER[outer.assistant]
    turns = "".join(
        markers.message("user", strip_user(one.user)) + markers.message("assistant", strip_assistant(one.assistant))
        for one in history
    )
    return turns + markers.message("user", strip_user(user)) + generation_prefix(renderer)


def outer_white_space(renderer: Renderer) -> Outer:
    """A template's treatment of outer white space. Raises PropertyError if it is none of `_OUTER`."""
    for user in _OUTER:
        for assistant in _OUTER:
            outer, history = Outer(user, assistant), [Exchange(_SPACED, _SPACED)]
            if renderer.prompt_text(history, _SPACED) == conversation_text(renderer, history, _SPACED, outer):
                return outer
    text, expected = renderer.prompt_text(history, _SPACED), conversation_text(renderer, history, _SPACED)
    raise PropertyError(f"texts between white space are rendered as {_difference(text, expected)}")


def check_properties(renderer: Renderer) -> list[Property]:
    """All properties of tokenizer and template, the most basic first.

    Raises:
        PropertyError: with the expected and the actual text.
    """
    properties = []
    for name, check in _PROPERTIES.items():
        try:
            properties.append(Property(name, check(renderer)))
        except PropertyError as error:
            raise PropertyError(f"{name}: {error}") from None
    return properties


def check_weights(folder: Path) -> str:
    """Builds the model without memory and without reading a tensor; returns its number of parameters as text.

    Raises:
        PropertyError: a weight is missing or has another shape; a tied vocabulary head counts as present.
    """
    import torch
    from safetensors import SafetensorError, safe_open

    from stair.models.load import load_model

    for path in matching(folder, "*.safetensors"):
        try:
            with safe_open(path, framework="pt") as file:
                file.keys()
        except (SafetensorError, OSError) as error:
            raise PropertyError(
                f"weights: {path.name} is damaged ({error}); copy, fetch or check it out again"
            ) from None
    try:
        model = load_model(folder, dtype=torch.bfloat16, device="meta")
    except Exception as error:  # the library raises any exception on a wrong configuration or index
        kind = "" if isinstance(error, ValueError | RuntimeError | OSError) else f"{type(error).__name__}: "
        remedy = "; copy, fetch or check it out again" if isinstance(error, OSError) else ""
        raise PropertyError(f"weights: {kind}{' '.join(str(error).split())}{remedy}") from None
    count = sum(parameter.numel() for parameter in model.parameters())
    tied = model.get_output_embeddings().weight is model.get_input_embeddings().weight
    return f"{count:,} parameters, none missing; vocabulary head {'tied to the embeddings' if tied else 'of its own'}"


def rendered_examples(renderer: Renderer) -> list[dict[str, Any]]:
    """Examples of this model's prompts, with their ids and the control span."""
    examples = []
    for name, history in _HISTORIES.items():
        ids = renderer.prompt_ids(history, _AGAIN)
        start, end = control_span(ids, renderer.user_header)
        examples.append(
            {"name": name, "text": renderer.tokenizer.decode(ids), "ids": ids, "control_span": [start, end]}
        )
    return examples


def _no_system_message(renderer: Renderer) -> str:
    text = renderer.prompt_text([], _USER)
    markers = renderer.markers
    if markers.header("system") in text or not text.startswith(markers.opening + markers.header("user")):
        raise PropertyError(f"the template adds a message before the user's: {_short(text)}")
    return "a conversation opens with the user's message"


def _generation_prefix(renderer: Renderer) -> str:
    text, expected = renderer.prompt_text([], _USER), generation_prefix(renderer)
    after, end = text.split(_USER, 1)[-1], renderer.markers.end + renderer.markers.between
    if after != end + expected:
        opened = "<think>" in after
        remedy = f"; {_thinking_remedy(opened)}" if opened != ("<think>" in expected) else ""
        raise PropertyError(f"after the user's message comes {after!r}, expected {end + expected!r}{remedy}")
    return f"a prompt ends with {expected!r}"


def _thinking_remedy(thinks: bool) -> str:
    return f"if the model {'thinks' if thinks else 'does not think'}, set its `thinking` to {str(thinks).lower()}"


def _history(renderer: Renderer) -> str:
    for name, history in _HISTORIES.items():
        text, expected = renderer.prompt_text(history, _AGAIN), conversation_text(renderer, history, _AGAIN)
        if text != expected:
            raise PropertyError(f"{name} is rendered as {_difference(text, expected)}")
    return "every earlier turn is there, with empty answers too"


def _texts(renderer: Renderer) -> str:
    outer = outer_white_space(renderer)
    users = {**_CONTENTS, "a marker of thinking": f"What does {END_OF_THINKING} mean, and <think>?"}
    for turns in range(TURNS):
        for name, user in users.items():
            answer = _CONTENTS.get(name, _ANSWER)
            history = [Exchange(user, answer)] * turns
            text, expected = (
                renderer.prompt_text(history, user),
                conversation_text(renderer, history, user, outer),
            )
            if text != expected:
                raise PropertyError(f"{name}, at turn {turns + 1}, is rendered as {_difference(text, expected)}")
    return f"users' stand {outer.user}, answers {outer.assistant}"


def _earlier_thinking(renderer: Renderer) -> str:
    """The template's treatment of thinking in history; the pipeline never passes any."""
    full = f"<think>\n{_THOUGHT}\n{END_OF_THINKING}\n\n{_ANSWER}"
    text = renderer.prompt_text([Exchange(_USER, full)], _AGAIN)
    if not renderer.thinking:
        if full not in text:
            raise PropertyError(f"an answer is not kept as it is: {_short(text)}")
        return "kept as text; a model without thinking has none"
    if _THOUGHT in text:
        raise PropertyError(f"the thinking of an earlier turn stays in its history: {_short(text)}")
    if text != conversation_text(renderer, [Exchange(_USER, _ANSWER)], _AGAIN):
        raise PropertyError(f"an earlier turn with thinking is rendered as {_short(text)}")
    return "left out of history"


def _single_ids(renderer: Renderer) -> str:
    turns = (renderer.markers.start, renderer.markers.end, *renderer.markers.others)
    markers = [*turns, *(["<think>", END_OF_THINKING] if renderer.thinking else [])]
    for marker in markers:
        ids = renderer.tokenizer(f"x{marker}x", add_special_tokens=False)["input_ids"]
        alone = renderer.tokenizer(marker, add_special_tokens=False)["input_ids"]
        if len(alone) != 1 or list(ids).count(alone[0]) != 1:
            remedy = "" if marker in turns else f"; {_thinking_remedy(False)}"
            raise PropertyError(f"{marker} is {len(alone)} ids ({list(alone)}), expected one{remedy}")
    for marker in turns:
        # Decoding omits special tokens, so that an answer cannot open a turn.
        if not _is_special(renderer, renderer.tokenizer.convert_tokens_to_ids(marker)):
            raise PropertyError(f"{marker} is not marked as a special token (tokenizer.json, added_tokens)")
    listed = [f"{marker} {renderer.tokenizer(marker, add_special_tokens=False)['input_ids'][0]}" for marker in markers]
    if not renderer.thinking:
        ids = renderer.tokenizer(END_OF_THINKING, add_special_tokens=False)["input_ids"]
        # A model without thinking does not use it; the text only lists its ids.
        listed.append(f"{END_OF_THINKING} {ids[0] if len(ids) == 1 else f'{len(ids)} ids'} (not used)")
    return ", ".join(listed)


def _is_special(renderer: Renderer, token: int) -> bool:
    return bool(renderer.tokenizer.decode([token], skip_special_tokens=True) == "")


def _stop_ids(renderer: Renderer) -> str:
    if renderer.turn_end not in renderer.stop_ids:
        raise PropertyError(
            f"{renderer.markers.end} ({renderer.turn_end}) is not among the model's stop ids {list(renderer.stop_ids)} "
            "(eos_token_id of generation_config.json, else the tokenizer's)"
        )
    for stop in renderer.stop_ids:
        if not 0 <= stop < renderer.tokens or not _is_special(renderer, stop):
            name = renderer.tokenizer.convert_ids_to_tokens(stop) if 0 <= stop < renderer.tokens else "no token"
            raise PropertyError(f"the stop id {stop} is {name!r}, which is no special token of the tokenizer")
    return ", ".join(f"{renderer.tokenizer.convert_ids_to_tokens(stop)} {stop}" for stop in renderer.stop_ids)


def _ids_of_text(renderer: Renderer) -> str:
    text = conversation_text(renderer, _HISTORIES["the fourth turn"], _AGAIN)
    ids = renderer.prompt_ids(_HISTORIES["the fourth turn"], _AGAIN)
    if renderer.tokenizer.decode(ids) != text:
        raise PropertyError(f"a prompt's ids decode to {_difference(renderer.tokenizer.decode(ids), text)}")
    return "a prompt's ids decode to its text; none is added"


def _control_span(renderer: Renderer) -> str:
    for name, history in _HISTORIES.items():
        ids = renderer.prompt_ids(history, _AGAIN)
        try:
            start, end = control_span(ids, renderer.user_header)
        except ValueError as error:
            raise PropertyError(str(error)) from None
        within, expected = renderer.tokenizer.decode(ids[start:end]), _turns_text(renderer, [], _AGAIN, Outer())
        if within != expected or end != len(ids):
            raise PropertyError(f"of {name} it is {_short(within)}, expected {_short(expected)}")
    return "from the last user header to the prompt's end, found by ids"


_PROPERTIES: dict[str, Callable[[Renderer], str]] = {
    "markers are single ids": _single_ids,
    "no system message": _no_system_message,
    "generation prefix": _generation_prefix,
    "earlier thinking": _earlier_thinking,
    "history": _history,
    "texts": _texts,
    "ids of a prompt": _ids_of_text,
    "control span": _control_span,
    "stop ids": _stop_ids,
}


def _short(text: str) -> str:
    shown = repr(text)
    return shown if len(shown) <= 200 else f"{shown[:197]}..."


def _difference(text: str, expected: str) -> str:
    """The first difference of two texts."""
    place = next(
        (i for i, (a, b) in enumerate(zip(text, expected, strict=False)) if a != b), min(len(text), len(expected))
    )
    return f"{text[place : place + 40]!r} at character {place}, expected {expected[place : place + 40]!r}"
