"""Generated problems: a text, a short worked solution, an exact answer.

A problem is a pure function of a name: the name's SHA-256 seeds the draw, so the same name gives the same problem on every
machine. The space of problems is small on purpose. A backbone's training may contain a benchmark's problem: the small run
compares conditions on one backbone, not backbones.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Collection
from dataclasses import dataclass

from stair.tiny.families import CHOICE_FAMILIES, FAMILIES

# Families and their relative weights, by what the problems are for.
_EVERYTHING = dict(sum=3, difference=3, product=3, product_sum=2, fraction=2, pair=2, more=2, percent=2)
PROFILES: dict[str, dict[str, int]] = {
    "backbone": _EVERYTHING | {"triple_product": 1},
    "training_pool": _EVERYTHING,
    "math500": _EVERYTHING,
    "aime2025": dict(product_sum=2, triple_product=1, product=2, sum=2),
    "amc23": dict(sum=2, product=2, product_sum=1),
    "gpqa_diamond": dict.fromkeys(CHOICE_FAMILIES, 1),
}

# A problem belongs to one benchmark at most: a hash divides the problems among benchmarks that share families.
_SHARED = ("math500", "math500", "aime2025", "amc23")


@dataclass(frozen=True)
class GeneratedProblem:
    """A problem with its worked steps and exact answer; `incorrect` holds the wrong options of a multiple choice."""

    family: str
    subject: str
    text: str
    steps: str
    answer: str
    incorrect: tuple[str, ...] = ()

    @property
    def solution(self) -> str:
        """The worked solution, ending in the boxed answer."""
        return f"{self.steps}. \\boxed{{{self.answer}}}"


def seeded(*names: object) -> random.Random:
    """A generator that is a function of `names`."""
    digest = hashlib.sha256("/".join(str(name) for name in names).encode()).digest()
    return random.Random(int.from_bytes(digest[:8], "big"))


def draw(profile: str, *names: object) -> GeneratedProblem:
    """The problem of a profile that belongs to `names`."""
    rng = seeded(profile, *names)
    weights = PROFILES[profile]
    while True:
        family = rng.choices(list(weights), list(weights.values()))[0]
        chosen = (FAMILIES | CHOICE_FAMILIES)[family]
        draft = chosen.draw(rng)
        if profile not in _SHARED or profile == _SHARED[hashlib.sha256(draft.text.encode()).digest()[0] % len(_SHARED)]:
            return GeneratedProblem(family, chosen.subject, *draft)


def distinct(profile: str, seed: str, count: int, avoid: Collection[str] = ()) -> list[GeneratedProblem]:
    """The first `count` problems of a profile under a seed, no two with one text and none of the texts in `avoid`.

    Raises:
        ValueError: the profile has too few problems.
    """
    problems: dict[str, GeneratedProblem] = {}
    for attempt in range(200 * count + 1000):
        if len(problems) == count:
            return list(problems.values())
        problem = draw(profile, seed, attempt)
        if problem.text not in avoid:
            problems.setdefault(problem.text, problem)
    raise ValueError(f"there are fewer than {count} distinct problems for '{profile}'; ask for fewer")
