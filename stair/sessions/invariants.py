"""Invariants of generated rows: of one condition alone, and of the conditions of a model and benchmark together."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

import numpy as np
import pandas as pd

from stair.config.evaluation import Condition
from stair.core import EngineIdentity
from stair.sessions.check import Check, checked, occurrences
from stair.sessions.renderer import Renderer, last_position

Schedule = Mapping[str, Sequence[str]]
"""A session's problems in turn order, by session."""

Cut = Mapping[tuple[str, int], int]
"""The first missing turn of trajectories that are cut off, by (session, sample)."""


def cut_trajectories(gaps: Iterable[Mapping[str, Any]]) -> Cut:
    """The trajectories that missing responses cut off; `gaps` are a manifest's."""
    cut: dict[tuple[str, int], int] = {}
    for gap in gaps:
        place = gap["session_id"], gap["sample"]
        cut[place] = min(gap["turn"], cut.get(place, gap["turn"]))
    return cut


_KEPT = {
    **dict.fromkeys(
        ("condition", "session_id", "problem_id", "finish_reason", "prompt_ids_sha256", "bank_sha256"), object
    ),
    **dict.fromkeys(("turn", "sample", "seed", "response_tokens", "controlled_tokens"), int),
    **dict.fromkeys(("captured_tokens", "bank_tokens", "readout_norm"), float),
    "history_retokenised": bool,
}
"""The columns of a response row that the checks read. Its ids and texts, gigabytes in a whole condition, are read once."""
_OF_IDS = {"ids": int, "states": float, "first_ids": object, "ends_thinking": bool, "engine": object}
_PLACE = ("condition", "session_id", "turn", "sample")


def kept(row: Mapping[str, Any], renderer: Renderer | None) -> dict[str, Any]:
    """The part of a response row that the checks keep. Without a renderer, its captured span cannot be checked."""
    ids = row["response_ids"]
    return {
        **{name: row[name] for name in _KEPT},
        "ids": len(ids),
        "states": None if renderer is None else _states(ids, renderer),
        # SHA-256 of the ids of a T1, by which conditions share it.
        "first_ids": sha256(array("i", ids).tobytes()).digest() if row["turn"] == 1 else None,
        "ends_thinking": "</think>" in row["response"],
        "engine": str(EngineIdentity.of_row(row)),
    }


def _states(ids: Sequence[int], renderer: Renderer) -> int:
    """The states that a response gives to the bank (appendix B.1), counted independently of the code that captures."""
    body = renderer.body_ids(ids)
    marker = None if renderer.end_of_thinking is None else last_position(body, renderer.end_of_thinking)
    # Without a marker, what has been processed: the token drawn last has no state.
    return min(len(body), max(len(ids) - 1, 0)) if marker is None else marker


def turns_of(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """A frame of rows as `kept` makes them."""
    columns = _KEPT | _OF_IDS
    return pd.DataFrame(list(rows), columns=list(columns)).astype(columns)


def condition_checks(
    turns: pd.DataFrame,
    settings: Condition,
    schedule: Schedule,
    samples: int,
    scope: str,
    *,
    reads: bool,
    acts: bool | None = None,
    cut: Cut | None = None,
) -> list[Check]:
    """The invariants of the rows of one condition.

    `reads`: whether its controller reads a bank. `acts`: whether it acts during prefill (None: as `reads`). `cut`: the
    trajectories that missing responses cut off.
    """
    asked = {(session, turn): problem for session, row in schedule.items() for turn, problem in enumerate(row, 1)}
    scheduled = [asked.get(place) for place in zip(turns.session_id, turns.turn, strict=True)]
    ordered = turns.sort_values("turn")
    captured = ordered.captured_tokens.fillna(0)
    stored = (captured.groupby([ordered.session_id, ordered["sample"]]).cumsum() - captured).sort_index()
    checks = [
        _whole(turns, settings.turns, schedule, samples, scope, cut or {}),
        checked("problems follow the schedule", scope, turns, turns.problem_id != scheduled, *_PLACE, "problem_id"),
        checked("token counts agree with the ids", scope, turns, turns.response_tokens != turns.ids,
                *_PLACE, "response_tokens", "ids"),
        checked("bank tokens equal the sum of captured spans", scope, turns.assign(stored=stored),
                turns.bank_tokens.fillna(-1) != (stored if reads else -1), *_PLACE, "bank_tokens", "stored"),
        checked("the bank is read after T1 and nowhere else", scope, turns,
                _misread(turns, settings, reads if acts is None else acts),
                *_PLACE, "controlled_tokens", "bank_tokens", "readout_norm"),
    ]  # fmt: skip
    if turns.states.notna().any():
        expected = turns.states.where(reads & (turns.turn < settings.turns)).fillna(-1)
        wrong = turns.captured_tokens.fillna(-1) != expected
        name = "captured spans end where the answers say"
        checks.append(checked(name, scope, turns, wrong, *_PLACE, "captured_tokens", "states"))
    return checks


def _whole(turns: pd.DataFrame, last: int, schedule: Schedule, samples: int, scope: str, cut: Cut) -> Check:
    """Every turn of every trajectory once. A trajectory that is cut has nothing behind the cut."""
    place = ["session_id", "sample", "turn"]
    grid = occurrences(turns, pd.MultiIndex.from_product([schedule, range(samples), range(1, last + 1)], names=place))
    first_missing = [cut.get(each, last + 1) for each in zip(grid.session_id, grid["sample"], strict=True)]
    missing = (grid.times == 0) & (grid.turn >= first_missing)
    behind = (grid.times > 0) & (grid.groupby(["session_id", "sample"]).times.cummin() == 0)
    wrong = ~grid.expected | behind | ((grid.times != 1) & ~missing)
    check = replace(
        checked("every turn of every trajectory once", scope, grid, wrong, *place, "times"), rows=len(turns)
    )
    lacking = len(schedule) * last * samples - len(turns)
    return replace(check, detail=f"{lacking} missing, as the manifest says") if check.passed and lacking else check


def _misread(turns: pd.DataFrame, settings: Condition, acts: bool) -> pd.Series:
    """The turns that read nothing where a bank is read, or something elsewhere."""
    # Where the context had no room left, the prompt was never processed.
    asked = (turns.finish_reason != "context") | (turns.response_tokens > 0)
    reading, norm = acts & (turns.turn > 1) & asked, turns.readout_norm
    # Of one entry, both reads are the same. Bank-free keeps no bank: NaN.
    single = (turns.bank_tokens == 1) | (settings.prefix == 1)
    sound = norm == 0 if settings.variant == "zero" else ((norm > 0) & np.isfinite(norm)) | ((norm == 0) & single)
    # An empty bank (every earlier answer ended at once) has nothing to read.
    unread = (turns.controlled_tokens <= 0) | ((turns.bank_tokens != 0) & ~sound)
    return (reading & unread) | (~reading & ((turns.controlled_tokens != 0) | (norm != 0)))


def shares(turns: pd.DataFrame, thinking: bool, scope: str) -> list[Check]:
    """How often responses take an unusual path: reported, never a failure."""
    outcomes = {
        "share of re-tokenised histories": turns.history_retokenised[turns.turn > 1],
        "share of responses at the output limit": turns.finish_reason == "length",
        "share of responses with no room left": turns.finish_reason == "context",
    }
    if thinking:
        outcomes["share of responses without </think>"] = ~turns.ends_thinking
    return [
        Check(name, scope, True, len(each), f"{each.sum()} of {len(each)} ({each.mean():.1%})")
        for name, each in outcomes.items()
        if len(each)
    ]


ONE_ENGINE = "one engine for the comparison"
MIXED = "mixed, as evaluation.allow_mixed_engines allows: "
"""The beginning of that check's detail if unequal engines are allowed."""


def group_checks(
    turns: pd.DataFrame, conditions: Mapping[str, Condition], scope: str, *, allow_mixed: bool = False
) -> list[Check]:
    """The invariants of all conditions of one model and benchmark together."""
    first = turns[turns.turn == 1]
    saved = dict(
        zip(zip(first.condition, first.problem_id, first["sample"], strict=True), first.first_ids, strict=True)
    )
    source = first.condition.map({key: item.first_turn for key, item in conditions.items()})
    places = zip(source, first.problem_id, first["sample"], strict=True)
    unshared = source.notna() & (first.first_ids != [saved.get(place) for place in places])
    seeds = turns.groupby(["problem_id", "sample"]).seed.transform("first")
    engines = checked(ONE_ENGINE, scope, turns, ~turns.engine.isin(turns.engine[:1]), *_PLACE, "engine")
    if not engines.passed and allow_mixed:
        engines = replace(engines, passed=True, detail=MIXED + "; ".join(turns.engine.unique()))
    return [
        replace(checked("T1 responses are shared", scope, first, unshared, *_PLACE), rows=len(turns)),
        checked("one seed for a problem and sample", scope, turns, turns.seed != seeds, *_PLACE, "seed"),
        engines,
    ]


def shared_t1_checks(turns: pd.DataFrame, layers: Mapping[str, tuple[int, ...]], scope: str) -> list[Check]:
    """The invariants of conditions that share one T1 history at T2, beside `group_checks`.

    `layers`: the controlled layers of the conditions that read the bank, whose states a digest covers.
    """
    second = turns[turns.turn == 2]
    reading = second[second.condition.isin(layers)].assign(layers=lambda row: row.condition.map(layers).astype(str))
    prompts = second.groupby(["session_id", "sample"]).prompt_ids_sha256.transform("first")
    banks = reading.groupby(["session_id", "sample", "layers"]).bank_sha256.transform("first")
    return [
        checked("T2 prompts are equal", scope, second, second.prompt_ids_sha256 != prompts, *_PLACE, "prompt_ids_sha256"),
        checked("banks are equal", scope, reading, reading.bank_sha256.isna() | (reading.bank_sha256 != banks),
                *_PLACE, "bank_sha256"),
    ]  # fmt: skip
