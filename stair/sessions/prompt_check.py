"""Checks that a model's prompts are the paper's, and that they fit into its context.

The paper's conversations (appendices B.1, B.3, C.1, C.2) fix every id of a prompt: no system message, user and assistant turns
between their markers, a generation prefix of the mode, earlier answers without their thinking. Any other template would change
prompts silently.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from stair.core import TURNS, Problem
from stair.sessions.renderer import END_OF_THINKING, Exchange, Renderer, control_span

_USER, AGAIN = "What is 1 + 2?", "And what is 3 + 4?"
_ANSWER = "It is \\boxed{3}."
HISTORIES = {
    "one turn": [],
    "a later turn": [Exchange(_USER, _ANSWER)],
    "after an empty answer": [Exchange(_USER, "")],
    "the third turn": [Exchange(_USER, _ANSWER), Exchange(AGAIN, _ANSWER)],
    "the fourth turn": [Exchange(_USER, _ANSWER), Exchange(AGAIN, ""), Exchange(_USER, _ANSWER)],
}
"""An answer is empty if thinking did not end."""

_TEXTS = {
    "several lines": "First, **bold**, `code`.\n\n  1. indented\n\t2. tabbed  \n\n\nLast: $x^2 < 3$ & \\frac{1}{2} \"so\" 'so'.",
    "other scripts": "Sei α ≤ ½; 求 x² 的值。 Ωмега é e\u0301 \U0001d54f",
    "what looks like a template": "{{ messages }} {% if x %} {# y #} <tool_response> [INST] <s> /no_think",
    "a long text": " ".join(
        f"Step {number}: add {number} to the sum, which is \\boxed{{{number}}}." for number in range(200)
    ),
}
"""Texts that a template must not change. Official templates differ in outer white space."""
_ABOUT_THINKING = f"What does {END_OF_THINKING} mean, and <think>?"


class Example(NamedTuple):
    """A conversation by which a template is judged."""

    name: str
    given: list[Exchange]
    """The history that the template gets."""
    shown: list[Exchange]
    """The history that it must write."""
    user: str


def examples(thinking: bool) -> Iterator[Example]:
    """The conversations by which a template is judged."""
    for name, history in HISTORIES.items():
        yield Example(name, history, history, AGAIN)
    full = Exchange(_USER, f"<think>\nOne and two are three\n{END_OF_THINKING}\n\n{_ANSWER}")
    yield Example("an answer with its thinking", [full], [Exchange(_USER, _ANSWER) if thinking else full], AGAIN)
    for turn in range(TURNS):
        for name, text in _TEXTS.items():
            history = [Exchange(text, text)] * turn
            yield Example(f"{name}, at turn {turn + 1},", history, history, text)
        history = [Exchange(_ABOUT_THINKING, _ANSWER)] * turn
        yield Example(f"a marker of thinking, at turn {turn + 1},", history, history, _ABOUT_THINKING)


def expected_prompt(renderer: Renderer, history: list[Exchange], user: str) -> tuple[str, str]:
    """A prompt by the paper's protocol, written out: the text before the control span, and that of the span."""
    message = renderer.markers.message
    earlier = (message("user", one.user) + message("assistant", one.assistant) for one in history)
    return renderer.markers.opening + "".join(earlier), message("user", user) + _generation_prefix(renderer)


def _generation_prefix(renderer: Renderer) -> str:
    """The end of a prompt, after the last user message; its `<think>` depends on the mode (training, appendix C.1)."""
    header = renderer.markers.header("assistant")
    if not renderer.thinking:
        return header
    # Models of two modes, such as Qwen3-0.6B, write `<think>` themselves; without thinking, their template closes an empty block.
    off = Renderer(renderer.tokenizer, thinking=False, stop_ids=renderer.stop_ids).prompt_text([], _USER)
    opens = off == f"{renderer.prompt_text([], _USER)}<think>\n\n{END_OF_THINKING}\n\n"
    return header if opens else f"{header}<think>\n"


def check_prompts(renderer: Renderer, vocabulary: int) -> None:
    """Compares the prompts of `examples` with the paper's, and checks the ids of markers and stops.

    Args:
        vocabulary: the rows of the model's embedding.

    Raises:
        ValueError: the first difference, with its reason.
    """
    _check_ids(renderer, vocabulary)
    for name, given, shown, user in examples(renderer.thinking):
        text, expected = renderer.prompt_text(given, user), "".join(expected_prompt(renderer, shown, user))
        if text != expected:
            raise ValueError(f"{name} is rendered as {_difference(text, expected)}{_reason(renderer, text, expected)}")
    for name, history in HISTORIES.items():
        earlier, current = expected_prompt(renderer, history, AGAIN)
        ids = renderer.prompt_ids(history, AGAIN)
        start, _ = control_span(ids, renderer.user_header)
        for part, expected in ((ids[:start], earlier), (ids[start:], current)):
            if (text := renderer.tokenizer.decode(part)) != expected:
                raise ValueError(f"the ids of {name}, cut at its control span, decode to {_difference(text, expected)}")


def _check_ids(renderer: Renderer, vocabulary: int) -> None:
    tokenizer, markers = renderer.tokenizer, renderer.markers
    if renderer.tokens > vocabulary:
        raise ValueError(f"the tokenizer has {renderer.tokens} tokens, the model's vocabulary {vocabulary}")

    def is_special(token: int) -> bool:
        return bool(tokenizer.decode([token], skip_special_tokens=True) == "")

    turns = (markers.start, markers.end, *markers.others)
    for marker in (*turns, *(("<think>", END_OF_THINKING) if renderer.thinking else ())):
        alone = tokenizer(marker, add_special_tokens=False)["input_ids"]
        if len(alone) != 1 or tokenizer(f"x{marker}x", add_special_tokens=False)["input_ids"].count(alone[0]) != 1:
            remedy = "" if marker in turns else f"; {_set_thinking(False)}"
            raise ValueError(f"{marker} is {len(alone)} ids ({alone}), expected one{remedy}")
        # Decoding omits special tokens, so that an answer cannot open a turn.
        if marker in turns and not is_special(alone[0]):
            raise ValueError(f"{marker} is not marked as a special token (tokenizer.json, added_tokens)")
    if renderer.turn_end not in renderer.stop_ids:
        raise ValueError(
            f"{markers.end} ({renderer.turn_end}) is not among the model's stop ids {list(renderer.stop_ids)} "
            "(eos_token_id of generation_config.json, else the tokenizer's)"
        )
    for stop in renderer.stop_ids:
        if not 0 <= stop < renderer.tokens:
            raise ValueError(f"the stop id {stop} is out of range: the tokenizer has {renderer.tokens} tokens")
        if not is_special(stop):
            name = tokenizer.convert_ids_to_tokens(stop)
            raise ValueError(f"the stop id {stop} is {name!r}, which is no special token of the tokenizer")


def _reason(renderer: Renderer, text: str, expected: str) -> str:
    """What a template adds or lacks, where it can be told."""
    if not text.startswith(renderer.markers.opening + renderer.markers.header("user")):
        return "; the template adds text before the user's, such as a system message, a date or a second BOS: remove it"
    more = text.count("<think>") - expected.count("<think>")
    if more and renderer.thinking == (more < 0):
        return f"; {_set_thinking(more > 0)}"
    return "; the template adds thinking to history" if more > 0 else ""


def _set_thinking(thinks: bool) -> str:
    return f"if the model {'thinks' if thinks else 'does not think'}, set its `thinking` to {str(thinks).lower()}"


def _difference(text: str, expected: str) -> str:
    """The first difference of two texts."""
    place = next(
        (i for i, (a, b) in enumerate(zip(text, expected, strict=False)) if a != b), min(len(text), len(expected))
    )
    return f"{text[place : place + 40]!r} at character {place}, expected {expected[place : place + 40]!r}"


def check_lengths(
    renderer: Renderer, context: int, problems: Iterable[Problem], max_new_tokens: int, table: Path
) -> None:
    """Raises ValueError if a problem of `table` does not fit into the context with its response, or contains a turn marker."""
    longest, name = 0, ""
    for problem in problems:
        ids = renderer.prompt_ids([], problem.user)
        if ids.count(renderer.turn_start) != 2 or ids.count(renderer.turn_end) != 1:
            raise ValueError(f"{table}: problem {problem.problem_id} contains a turn marker; clean it in its data set")
        longest, name = max((longest, name), (len(ids), problem.problem_id))
    if longest + max_new_tokens > context:
        raise ValueError(
            f"{table}: the prompt of problem {name} has {longest} tokens and max_new_tokens is {max_new_tokens}, together "
            f"more than the {context} positions of the model's RoPE (max_position_embeddings)"
        )
