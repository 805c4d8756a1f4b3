"""Chooses the sessions that histories come from: first both groups together, then a part of each for the problem coverage."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from stair.config.replay import BlockSizes, Replay
from stair.records.seeds import hash_order, seed_of
from stair.stages.replay.design.histories import History, joined

_SWAPS = 200
"""Swaps tried for each session that can be chosen; the paper's design needs about one."""
_TEMPERATURE = 0.3
"""A swap that misses by one more is kept about once in 28: enough to leave a dead end, too rare to lose what was reached."""

Paths = Mapping[str, Collection[History]]
"""The histories of each session."""


def choose_groups(paths: Paths, replay: Replay, *seed: str | int) -> list[list[str]]:
    """Both groups' sessions, with exact numbers of source problems and none of these in both.

    The groups are searched together: the sessions that one group leaves may not suffice for the other.
    Raises ValueError if no such groups are found; the message has the numbers of the closest.
    """
    sources = _sources(paths)
    wanted = [group.history_coverage for group in replay.groups]
    histories = replay.history_coverage.histories

    def misses(boxes: Sequence[Sequence[str]]) -> int:
        first, second = (_problems(box, sources) for box in boxes)
        return len(first & second) + sum(
            abs(len(problems) - one.source_problems) + max(0, histories - _count(box, paths))
            for problems, box, one in zip((first, second), boxes, wanted, strict=True)
        )

    missed, boxes = swap_search(paths, [one.sessions for one in wanted], misses, *seed)
    if missed:
        first, second = (_problems(box, sources) for box in boxes)
        raise ValueError(
            f"no groups of {_both(one.sessions for one in wanted)} sessions found among {len(paths)} that have "
            f"{_both(one.source_problems for one in wanted)} source problems, none in both, and {histories} histories each; "
            f"the closest have {len(first)} and {len(second)} source problems, {len(first & second)} in both, and "
            f"{_both(_count(box, paths) for box in boxes)} histories"
        )
    return [sorted(box) for box in boxes]


def choose_part(paths: Paths, wanted: BlockSizes, histories: int, *seed: str | int) -> list[str]:
    """The sessions of a group that the problem coverage takes, with exact numbers of source problems and blocks.

    `paths` has the group's histories by session; the problem coverage needs `histories` of them.
    Raises ValueError if no such part is found; the message has the numbers of the closest.
    """
    sources = _sources(paths)

    def part_of(box: Sequence[str]) -> tuple[int, int, int]:
        blocks = len(joined([sources[session] for session in box]))
        return len(_problems(box, sources)), blocks, _count(box, paths)

    def misses(boxes: Sequence[Sequence[str]]) -> int:
        problems, blocks, there = part_of(boxes[0])
        return abs(problems - wanted.source_problems) + abs(blocks - wanted.blocks) + max(0, histories - there)

    missed, (part,) = swap_search(paths, [wanted.sessions], misses, *seed)
    if missed:
        problems, blocks, there = part_of(part)
        raise ValueError(
            f"no {wanted.sessions} of a group's {len(paths)} sessions found that have {wanted.source_problems} source problems, "
            f"{wanted.blocks} blocks and {histories} histories; the closest have {problems}, {blocks} and {there}"
        )
    return sorted(part)


def _sources(paths: Paths) -> dict[str, frozenset[str]]:
    return {session: frozenset(next(iter(histories)).sources) for session, histories in paths.items()}


def _problems(sessions: Sequence[str], sources: Mapping[str, frozenset[str]]) -> set[str]:
    return set().union(*(sources[session] for session in sessions))


def _count(sessions: Sequence[str], paths: Paths) -> int:
    return sum(len(paths[session]) for session in sessions)


def _both(numbers: Iterable[int]) -> str:
    return " and ".join(map(str, numbers))


def swap_search(
    sessions: Iterable[str], sizes: Sequence[int], misses: Callable[[list[list[str]]], int], *seed: str | int
) -> tuple[int, list[list[str]]]:
    """Fills boxes of these sizes with sessions, and exchanges sessions until `misses` of the boxes is zero.

    Returns the fewest misses that were reached, and the boxes that have them. `seed` names the start and the exchanges.
    """
    order, chance = hash_order(sessions, *seed, "start"), random.Random(seed_of(*seed, "swaps"))
    ends = [sum(sizes[:number]) for number in range(len(sizes) + 1)]
    # The last box has the sessions that are not chosen.
    boxes = [order[start:end] for start, end in zip(ends, [*ends[1:], len(order)], strict=True)]
    current = fewest = misses(boxes[:-1])
    best = [list(box) for box in boxes[:-1]]
    places = [(number, index) for number, box in enumerate(boxes) for index in range(len(box))]
    for _ in range(_SWAPS * len(order)):
        if fewest == 0:
            break
        (box, index), (other, place) = places[chance.randrange(ends[-1])], places[chance.randrange(len(places))]
        if box == other:
            continue
        boxes[box][index], boxes[other][place] = boxes[other][place], boxes[box][index]
        missed = misses(boxes[:-1])
        if missed > current and chance.random() >= math.exp((current - missed) / _TEMPERATURE):
            boxes[box][index], boxes[other][place] = boxes[other][place], boxes[box][index]
            continue
        current = missed
        if current < fewest:
            fewest, best = current, [list(one) for one in boxes[:-1]]
    return fewest, best
