"""The conversations that a small backbone is trained on, rendered with its chat template.

One conversation holds one to four problems under one kind of prompt, as in the pipeline: the training prompt, the
mathematical evaluation prompt, or the multiple-choice one. With history a share of the problems is left without an answer:
what history costs a large model has many causes, a small one needs one, and this one is decided by a response's first token,
within reach of a read during prefill. Models that were trained without it gave STAIR too little to learn for its validation
loss to fall beyond noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import NamedTuple

from transformers import PreTrainedTokenizerFast

from stair.core import user_message
from stair.models.turn_markers import TurnMarkers
from stair.tiny.problems import Problem, draw, lettered, seeded

Message = dict[str, str]


@dataclass(frozen=True)
class BackbonePrompts:
    """The wordings that a backbone learns to answer; in each, ``{problem}`` stands for the problem's text."""

    training: str
    mathematical: str
    choice: str


@dataclass(frozen=True)
class Mixture:
    """What share of the conversations has which shape.

    ``turns``: relative weights of one, two, three and four problems. ``choice``: share under the multiple-choice
    prompt; the rest is shared equally by the training and the mathematical prompt. ``left_out``: what share of the
    problems after a conversation's first is left without an answer, under the training, the mathematical and the
    multiple-choice prompt. ``rambling``: share of the responses of a thinking model that think for ``rambling_steps``
    steps more than they need. ``single_turn_start``: share of the updates, from the first, that see conversations of one
    problem only: copying is learned there soonest.
    """

    turns: tuple[float, float, float, float] = (0.25, 0.25, 0.25, 0.25)
    choice: float = 0.25
    left_out: tuple[float, float, float] = (0.7, 0.15, 0.0)
    rambling: float = 0.05
    rambling_steps: int = 8
    single_turn_start: float = 0.4

    @classmethod
    def usual(cls, thinking: bool) -> Mixture:
        """A thinking model starts longer on single problems: in longer conversations only its last response is learned.

        It also needs fewer multiple choices, where it would leave too little to get wrong.
        """
        return cls(choice=0.2, single_turn_start=0.6) if thinking else cls()


def conversation(prompts: BackbonePrompts, mixture: Mixture, thinking: bool, *names: object) -> list[Message]:
    """The conversation that belongs to ``names``: user and assistant messages by turns, thinking included."""
    rng = seeded("conversation", *names)
    turns = rng.choices((1, 2, 3, 4), mixture.turns)[0]
    choice = rng.random() < mixture.choice
    kind = 2 if choice else rng.randrange(2)
    template = (prompts.training, prompts.mathematical, prompts.choice)[kind]
    messages: list[Message] = []
    for turn in range(turns):
        if choice:
            problem = lettered(draw("gpqa_diamond", *names, turn), rng.sample(range(4), 4))
        else:
            problem = draw("backbone", *names, turn)
        if turn and rng.random() < mixture.left_out[kind]:
            problem = replace(problem, steps="Enough", answer="")
        answer = response(problem, rng, mixture) if thinking else problem.solution
        messages.append({"role": "user", "content": user_message(template, problem.text)})
        messages.append({"role": "assistant", "content": answer})
    return messages


def response(problem: Problem, rng: Random, mixture: Mixture) -> str:
    """A thinking model's response, from after ``<think>`` and its line end to before the end marker."""
    steps = problem.steps
    if rng.random() < mixture.rambling:
        doubts = [f"Wait, is it {rng.randint(0, 99)}? No." for _ in range(mixture.rambling_steps)]
        steps = " ".join([steps, *doubts])
    return f"{steps}\n</think>\n\n\\boxed{{{problem.answer}}}"


class Example(NamedTuple):
    """One training sequence: token ids, and for each whether it is a target (a response's tokens, end marker too)."""

    ids: list[int]
    targets: list[bool]


def encode(
    tokenizer: PreTrainedTokenizerFast, markers: TurnMarkers, thinking: bool, conversations: Sequence[list[Message]]
) -> list[Example]:
    """Conversations in the tokenizer's template, with the tokens that are learned.

    Without thinking, every response of a conversation is a target. With thinking, a response's own thinking is absent
    from the history of the turns after it, so only the last response is.
    """
    header: list[int] = tokenizer.encode(markers.header("assistant"), add_special_tokens=False)
    end_id, width = tokenizer.get_vocab()[markers.end], len(header)
    texts = [str(tokenizer.apply_chat_template(messages, tokenize=False)) for messages in conversations]
    examples = []
    for ids in tokenizer(texts, add_special_tokens=False)["input_ids"]:
        starts = [i + width for i in range(len(ids) - width) if ids[i : i + width] == header]
        targets = [False] * len(ids)
        for start in starts[-1:] if thinking else starts:
            # The generation prefix of a thinking model supplies `<think>` and its line end.
            begin, end = start + 2 if thinking else start, ids.index(end_id, start) + 1
            targets[begin:end] = [True] * (end - begin)
        examples.append(Example(ids, targets))
    return examples
