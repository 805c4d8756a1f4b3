"""The vocabulary of every layer: turns, problems, places, engines, conditions, the read specification."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Self, get_args

TURNS = 4
"""Turns of a session (section 2 of the paper), each on another problem."""

PLACEHOLDER = "{problem}"
"""Stands for the problem's text in the configuration's prompts."""


LETTERS = "ABCD"
"""The letters of a multiple choice's options."""


def user_message(prompt: str, problem: str) -> str:
    """The user message that asks a problem: the prompt with the problem's text in it."""
    return prompt.replace(PLACEHOLDER, problem)


@dataclass(frozen=True)
class Problem:
    """A problem of a benchmark as it is asked."""

    problem_id: str
    user: str


class Place(NamedTuple):
    """The responses of one condition, by the keys of model, benchmark and condition."""

    model: str
    benchmark: str
    condition: str

    def __str__(self) -> str:
        return "/".join(self)

    def of(self, study: str) -> Place:
        """The place of a condition that is given by its name in a study, as rows have it."""
        return self._replace(condition=condition_key(study, self.condition))


# ---------------------------------------------------------------- engines


Truncation = Literal["sequential", "joint"]
"""Top-p after renormalising the top-k (Transformers), or both on the full distribution (SGLang)."""


@dataclass(frozen=True, slots=True)
class EngineIdentity:
    """The engine that generates a response, as far as it can change the response."""

    COLUMNS: ClassVar[tuple[str, ...]] = ("engine", "engine_version", "attention", "dtype", "device")
    """The columns of generated rows that identify their engine."""

    name: str
    version: str
    attention: str
    """The attention path, as the engine calls it."""
    dtype: str
    device: str | None = None
    """The kind of device, known of a loaded engine: rows have it, response keys do not."""
    arguments: str | None = None
    """Further options of a server that can change a response: response keys have them, rows do not."""

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Self:
        """The engine of a generated row."""
        return cls(*(row[name] for name in cls.COLUMNS))

    def as_columns(self) -> dict[str, str | None]:
        """The columns of a row that it generates."""
        return dict(zip(self.COLUMNS, (self.name, self.version, self.attention, self.dtype, self.device), strict=True))

    def as_key(self) -> dict[str, str]:
        """The engine's part of response keys."""
        key = {"name": self.name, "version": self.version, "attention": self.attention, "dtype": self.dtype}
        return key if self.arguments is None else key | {"arguments": self.arguments}

    def __str__(self) -> str:
        parts = (self.name, self.version, self.attention, self.dtype, self.device)
        return " ".join(part for part in parts if part is not None)


# ---------------------------------------------------------------- conditions

EVALUATION = "evaluation"
"""The study of continuous evaluation."""
SHARED_T1 = "shared_t1"
"""The study whose conditions share one T1 history (appendix C.4)."""
SECTIONS = {EVALUATION: "evaluation", SHARED_T1: "controls"}
"""The section of the configuration that has a study's seed and shards."""


def study_of(condition: str) -> tuple[str, str]:
    """The study of a condition, and its name there: the key of one that shares a T1 history is `shared_t1/NAME`."""
    study, _, name = condition.rpartition("/")
    return study or EVALUATION, name


def condition_key(study: str, name: str) -> str:
    """The key of a study's condition."""
    return name if study == EVALUATION else f"{study}/{name}"


SEEDED = ("random_reflector", "kv_permutation")
"""The paper's families of conditions that differ by a test-time seed (appendix C.4)."""
PREFIXED = ("stair_prefix",)
"""Those that differ by how many of the bank's first entries are readable."""


@dataclass(frozen=True)
class ConditionName:
    """The name of a condition: its family and, in a family of several, its test-time seed or readable entries."""

    family: str
    seed: int | None = None
    prefix: int | None = None

    @property
    def key(self) -> str:
        """The name of files and in rows: `kv_permutation-2`, `stair_prefix-2048`."""
        return "-".join(str(part) for part in (self.family, self.seed, self.prefix) if part is not None)

    @property
    def averaged(self) -> str:
        """The key in tables: conditions that differ by their seed alone have one, and are averaged."""
        return ConditionName(self.family, prefix=self.prefix).key

    @classmethod
    def of_key(cls, key: str) -> Self:
        """The inverse of `key` for the paper's families: rows without a configuration carry keys alone."""
        match = re.fullmatch(rf"({'|'.join(SEEDED + PREFIXED)})-(\d+)", key)
        if match is None:
            return cls(key)
        family, number = match[1], int(match[2])
        return cls(family, seed=number) if family in SEEDED else cls(family, prefix=number)


# ---------------------------------------------------------------- a bank and how it is read


def capture_length(response_ids: Sequence[int], *, end_of_thinking: int | None, stop_ids: Collection[int]) -> int:
    """Return how many leading tokens of a response have states that belong in the bank.

    response_ids     the generated tokens, a final stop token included where there is one; the last token has no state, because
                     no forward pass has processed it
    end_of_thinking  the id of `</think>` for a thinking model: capture ends before the last one, and without any takes all
                     that was processed. None for an Instruct model: the whole answer body
    stop_ids         end markers; capture ends before the first, in both kinds of model
    """
    ids = list(response_ids)
    length = next((index for index, token in enumerate(ids) if token in stop_ids), len(ids))
    if end_of_thinking is not None and end_of_thinking in ids[:length]:
        length = length - 1 - ids[:length][::-1].index(end_of_thinking)
    return min(length, max(len(ids) - 1, 0))


Readout = Literal["differential", "direct"]
"""What a read computes: r^R - r^ref (Eq. 9), or the reflected read r^R alone, a control (appendix C.4)."""
ReadVariant = Literal[Readout, "zero"]
"""What a read adds; `zero` computes the differential readout and multiplies it by zero."""

SMOOTHING = 1e-6
LEAST_SMOOTHING = 1e-12


def check_smoothing(smoothing: float) -> None:
    """Raise ValueError outside [1e-12, 1]. Below, quotients of the two distributions could leave float32."""
    if not LEAST_SMOOTHING <= smoothing <= 1.0:
        raise ValueError(f"smoothing lies from {LEAST_SMOOTHING} to 1, not {smoothing}")


@dataclass(frozen=True)
class ReadSpecification:
    """How a bank is read (section 3.2, appendix C.4); `stair.method.Read` says which bank, controller and tokens.

    Attributes:
        variant: `differential` (Eq. 9), `direct` (the reflected read alone), `zero` (the readout times zero).
        limit: read the first `limit` entries only, in historical order; None reads all. Queries keep position M + p, M
            being the full length; the softmax and epsilon / M run over the entries read.
        permutation_seed: permute the values over the entries read, by layer and K/V head; None leaves the pairs.
        smoothing: the paper's epsilon (Eq. 6), from 1e-12 to 1.

    Raises:
        ValueError: an unknown variant, a limit below one entry, or smoothing out of range.
    """

    variant: ReadVariant = "differential"
    limit: int | None = None
    permutation_seed: int | None = None
    smoothing: float = SMOOTHING

    def __post_init__(self) -> None:
        if self.variant not in get_args(ReadVariant):
            raise ValueError(f"a read variant is 'differential', 'direct' or 'zero', not {self.variant!r}")
        if self.limit is not None and self.limit < 1:
            raise ValueError(f"a prefix limit is at least 1 entry, not {self.limit}")
        check_smoothing(self.smoothing)

    @property
    def readout(self) -> Readout:
        return "differential" if self.variant == "zero" else self.variant

    def readable(self, entries: int) -> int:
        """How many of a bank's entries are read."""
        return entries if self.limit is None else min(entries, self.limit)

    def as_key(self) -> dict[str, Any]:
        """The read's part of response keys."""
        permutation = {} if self.permutation_seed is None else {"permutation_seed": self.permutation_seed}
        return {"variant": self.variant, "smoothing": self.smoothing, "limit": self.limit, **permutation}
