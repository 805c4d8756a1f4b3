"""The sizes of a crossed design, and the numbers that contradict one another whatever the data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Crossed:
    """How many current problems a group crosses with how many histories."""

    current_problems: int
    histories: int


@dataclass(frozen=True)
class Sources:
    """The sessions that a group's histories come from, and the distinct problems of their first turns."""

    sessions: int
    source_problems: int


@dataclass(frozen=True)
class GroupSizes:
    """One group's sources in both coverages."""

    history_coverage: Sources
    problem_coverage: Sources
    """A part of `history_coverage`."""
    blocks: int
    """Connected source blocks of the problem coverage."""


@dataclass(frozen=True)
class Sizes:
    """All sizes of a design.

    Raises:
        ValueError: no data can meet these numbers together.
    """

    depth: int
    """Completed turns of the longest histories; all shorter prefixes are histories too."""
    batch_problems: int
    """Current problems of a batch."""
    history_coverage: Crossed
    problem_coverage: Crossed
    groups: tuple[GroupSizes, GroupSizes]

    def __post_init__(self) -> None:
        for problem in self._contradictions():
            raise ValueError(problem)

    def _contradictions(self) -> Iterator[str]:
        many, few = self.history_coverage, self.problem_coverage
        if many.current_problems > few.current_problems:
            yield (
                f"history_coverage.current_problems is {many.current_problems}, but it is a part of problem_coverage's: "
                f"at most {few.current_problems}"
            )
        if few.histories > many.histories:
            yield (
                f"problem_coverage.histories is {few.histories}, but it is a part of history_coverage's: "
                f"at most {many.histories}"
            )
        for number, group in enumerate(self.groups, start=1):
            for contradiction in self._contradictions_of(group):
                yield f"group {number}: {contradiction}"

    def _contradictions_of(self, group: GroupSizes) -> Iterator[str]:
        whole, part, blocks = group.history_coverage, group.problem_coverage, group.blocks
        if part.sessions > whole.sessions:
            yield f"problem_coverage has {part.sessions} sessions of {whole.sessions} in history_coverage"
        if part.source_problems > whole.source_problems:
            yield (
                f"problem_coverage has {part.source_problems} source problems of {whole.source_problems} in "
                "history_coverage"
            )
        for name, sources, crossed in (
            ("history_coverage", whole, self.history_coverage),
            ("problem_coverage", part, self.problem_coverage),
        ):
            most = self.depth * sources.sessions
            if not self.depth <= sources.source_problems <= most:
                yield (
                    f"{name}: {sources.sessions} sessions have {self.depth} to {most} source problems, "
                    f"not {sources.source_problems}"
                )
            if crossed.histories < sources.sessions:
                yield (
                    f"{sources.sessions} sessions need at least {sources.sessions} histories in {name}, one of each; "
                    f"there are {crossed.histories}"
                )
        if blocks > part.sessions:
            yield f"{part.sessions} sessions are at most {part.sessions} blocks, not {blocks}"
        # Every further session of a block shares at least one source problem with it.
        if part.source_problems > (most := self.depth * part.sessions - (part.sessions - blocks)):
            yield (
                f"{part.sessions} sessions in {blocks} blocks have at most {most} source problems, "
                f"not {part.source_problems}"
            )
        if part.source_problems < (least := self.depth * blocks):
            yield f"{blocks} blocks have at least {least} source problems, not {part.source_problems}"
        rest, added = whole.sessions - part.sessions, whole.source_problems - part.source_problems
        if added > (most := self.depth * rest):
            yield (f"the {rest} sessions of history_coverage alone add at most {most} source problems, not {added}")
