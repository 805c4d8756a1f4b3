"""What the tests of the small backbones share."""

from __future__ import annotations

from collections.abc import Iterator

from tools.tiny_backbones import BackbonePrompts, Mixture, conversation

PROMPTS = BackbonePrompts(
    training="Please reason step by step, and put your final answer within \\boxed{}.\n\n{problem}",
    mathematical=(
        "Solve the following problem. Show your reasoning, and put the final answer inside \\boxed{}.\nProblem: {problem}"
    ),
    choice=(
        "Answer the following multiple-choice question. Reason carefully. Put your final answer, consisting of only the "
        "choice letter, inside \\boxed{}, for example \\boxed{C}.\nQuestion:\n{problem}"
    ),
)


def texts(thinking: bool) -> Iterator[str]:
    for number in range(200):
        for message in conversation(PROMPTS, Mixture(choice=0.5), thinking, "texts", number):
            yield message["content"]
