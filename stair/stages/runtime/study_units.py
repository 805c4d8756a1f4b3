"""What the runtime study measures (appendix C.4): histories, and the durable units of each. Needs no package of the pipeline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from stair.records.seeds import seed_of

if TYPE_CHECKING:  # a GPU's own Python may lack the package that configurations are made of
    from stair.config.runtime import Growth, Runtime, Variant


@dataclass(frozen=True)
class History:
    """A T1 turn and the T2 prompt behind it.

    Attributes:
        name: `<session>-<sample>`, or `synthetic-<number>`.
        first_prompt: token ids of the T1 prompt.
        response: token ids of the T1 response with the stop token.
        prompt: token ids of the full visible T2 prompt.
        span: the control span in `prompt`, end exclusive.
        entries: states that the response gives to the bank.
    """

    name: str
    first_prompt: tuple[int, ...]
    response: tuple[int, ...]
    prompt: tuple[int, ...]
    span: tuple[int, int]
    entries: int


def synthetic_lengths(median: int, most: int, count: int) -> list[int]:
    """Return `count` lengths, evenly spaced from `2 * median - most` to `most`; one length is the median."""
    if count == 1:
        return [median]
    return [round(length) for length in np.linspace(2 * median - most, most, count)]


def synthetic_histories(
    lengths: Sequence[int], *, prompt: int, question: int, vocabulary: int, seed: str
) -> list[History]:
    """Return a history of random tokens for each length, the entries of its bank; a function of the seed's name.

    The T2 prompt has `prompt` tokens, the last `question` of which are its control span; the T1 prompt has as many as the span.
    Ids are drawn below `vocabulary`.
    """
    histories = []
    for number, entries in enumerate(lengths, start=1):
        name = f"synthetic-{number}"
        drawn = np.random.default_rng(seed_of(seed, name))
        # The token drawn last has no state, so a response has one token more than entries.
        first, response, ids = (
            tuple(drawn.integers(vocabulary, size=size).tolist()) for size in (question, entries + 1, prompt)
        )
        histories.append(History(name, first, response, ids, (prompt - question, prompt), entries))
    return histories


Part = Literal["construction", "row", "curve", "growth"]
NATIVE, FULL = "native", "full"


@dataclass(frozen=True)
class Unit:
    """One measurement with all its repetitions.

    Attributes:
        part: `construction` of a history's bank from saved tokens; a `row` of the table; a point of the `curve`
            over random banks; a turn of a bank's `growth`.
        history: its name; the first one's where banks are random.
        row: `native`, `prefix-<entries>`, `full`, `entries-<entries>` or `turn-<number>`; empty for a construction.
        variant: how the bank is read and transferred; empty where nothing is read.
        entries: readable entries.
        bank_entries: M, entries of the whole bank.
        segments: entries of each segment of a random bank.
    """

    part: Part
    history: str
    row: str
    variant: Variant | Literal[""]
    entries: int
    bank_entries: int
    segments: tuple[int, ...] = ()


@dataclass(frozen=True)
class Sizes:
    """A study's sizes, resolved: those of the configuration, or reduced ones."""

    tokens: int
    prefixes: tuple[int, ...]
    curve: tuple[int, ...]
    growth: Growth | None


def resolved_sizes(settings: Runtime, lengths: Sequence[int], *, divisor: int = 1, tokens: int | None = None) -> Sizes:
    """Return the sizes of a study whose full banks have these lengths.

    Quartiles are rounded down, so that each leaves at least one bank whole, and truncates one where lengths differ.
    """
    if settings.prefixes == "quartiles":
        prefixes = {int(length) for length in np.quantile(lengths, (0.25, 0.5, 0.75))} if lengths else set()
    else:
        prefixes = {max(length // divisor, 1) for length in settings.prefixes}
    growth = settings.growth
    if growth is not None:
        growth = growth.model_copy(update={"entries": max(growth.entries // divisor, 1)})
    curve = sorted({max(length // divisor, 1) for length in settings.curve})
    return Sizes(settings.tokens if tokens is None else tokens, tuple(sorted(prefixes)), tuple(curve), growth)


def units(settings: Runtime, sizes: Sizes, histories: Sequence[History]) -> Iterator[Unit]:
    """Yield all units, history by history, then the curve and the growth behind the first history's prompt."""
    for history in histories:
        whole = history.entries
        yield Unit("construction", history.name, "", "", 0, whole)
        yield Unit("row", history.name, NATIVE, "", 0, whole)
        rows = [(f"prefix-{length}", min(length, whole)) for length in sizes.prefixes] + [(FULL, whole)]
        for variant in settings.variants:
            for row, entries in rows:
                yield Unit("row", history.name, row, variant, entries, whole)
    if not histories:
        return
    first = histories[0].name
    if sizes.curve:
        yield Unit("curve", first, NATIVE, "", 0, 0)
    for variant in serial_variants(settings):
        for length in sizes.curve:
            yield Unit("curve", first, f"entries-{length}", variant, length, length, (length,))
    if sizes.growth is not None:
        for turn in range(1, sizes.growth.turns + 1):
            segments = (sizes.growth.entries,) * turn
            length = sum(segments)
            yield Unit("growth", first, f"turn-{turn}", "fast-serial", length, length, segments)


def serial_variants(settings: Runtime) -> list[Variant]:
    """Return the serial variants of the configured reads, each once."""
    serial: dict[str, Variant] = {"fast": "fast-serial", "printed": "printed-serial"}
    return [serial[read] for read in dict.fromkeys(variant.partition("-")[0] for variant in settings.variants)]
