"""The columns of every table on disk (Parquet)."""

from __future__ import annotations

from collections.abc import Sequence
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pyarrow as pa

from stair.records.rows import (
    BenchmarkProblem,
    ReplayHistory,
    ReplayProblem,
    ScheduledTurn,
    SourceRecord,
    TrainingTurn,
)

_IDS = pa.list_(pa.int32())
_TYPES: dict[Any, pa.DataType] = {
    str: pa.string(),
    int: pa.int32(),
    float: pa.float64(),
    bool: pa.bool_(),
    list[str]: pa.list_(pa.string()),
    Sequence[int]: _IDS,
}


def _schema_of(row: type) -> pa.Schema:
    """The columns of a typed row. A column is required unless its type allows None."""
    fields = []
    for name, kind in get_type_hints(row).items():
        nullable = isinstance(kind, UnionType)
        (kind,) = (part for part in get_args(kind) if part is not NoneType) if nullable else (kind,)
        fields.append(pa.field(name, pa.string() if get_origin(kind) is Literal else _TYPES[kind], nullable=nullable))
    return pa.schema(fields)


def _schema(**columns: pa.DataType) -> pa.Schema:
    """Columns are required unless their type is wrapped by `_nullable`."""
    return pa.schema(
        [
            pa.field(name, kind[0] if isinstance(kind, tuple) else kind, nullable=isinstance(kind, tuple))
            for name, kind in columns.items()
        ]
    )


def _nullable(kind: pa.DataType) -> tuple[pa.DataType]:
    return (kind,)


BENCHMARK = _schema_of(BenchmarkProblem)
TRAINING_POOL = _schema_of(SourceRecord)

_GENERATED = dict(
    seed=pa.int64(),
    prompt_tokens=pa.int32(),
    response_tokens=pa.int32(),
    response=pa.string(),
    finish_reason=pa.string(),  # stop, length, context
)

_PROOF = dict(
    prompt_ids_sha256=pa.string(),
    response_ids=_IDS,  # the stop token included
    engine=pa.string(),
    engine_version=pa.string(),
    attention=pa.string(),
    dtype=pa.string(),
    device=pa.string(),
)

ROLLOUTS = _schema(
    model=pa.string(),
    record_id=pa.string(),
    problem_id=pa.string(),
    sample=pa.int32(),
    **_GENERATED,
    **_PROOF,
)

_TURN = dict(
    model=pa.string(),
    benchmark=pa.string(),
    condition=pa.string(),
    session_id=pa.string(),
    turn=pa.int32(),  # 1 to 4
    sample=pa.int32(),  # 0 to 3
    problem_id=pa.string(),
)

_BANK_TOKENS = _nullable(pa.int32())  # entries stored before this turn; null where no bank is kept

RESPONSES = _schema(
    **_TURN,
    **_GENERATED,
    **_PROOF,
    history_retokenised=pa.bool_(),  # an earlier answer, decoded and encoded again, gave other ids
    captured_tokens=_nullable(pa.int32()),  # states that this turn gave to the bank; null where none is kept
    bank_tokens=_BANK_TOKENS,
    bank_sha256=_nullable(pa.string()),
    bank_source=_nullable(pa.string()),  # of the entries that the turn before added: decoded, replayed
    controlled_tokens=pa.int32(),
    readout_norm=pa.float64(),
)

SCORED = _schema(
    **_TURN,
    **_GENERATED,
    bank_tokens=_BANK_TOKENS,
    beyond_context=_nullable(pa.int32()),  # auxiliary positions beyond the context; null where none are counted
    answer=_nullable(pa.string()),
    verdict=pa.string(),  # correct, wrong, no_answer, timeout
    correct=pa.bool_(),
)

EVALUATION_SESSIONS = _schema_of(ScheduledTurn)
TRAINING_SESSIONS = _schema_of(TrainingTurn)
REPLAY_HISTORIES = _schema_of(ReplayHistory)
REPLAY_PROBLEMS = _schema_of(ReplayProblem)

REPLAY_STATISTICS = _schema(
    group=pa.string(),  # "group 1", or "fit group 1, test group 2"
    quantity=pa.string(),
    of=pa.string(),  # source category, view, part or feature; empty where the quantity has none
    depth=pa.int32(),  # completed turns
    layer=_nullable(pa.int32()),  # zero-based; null: of all layers
    k=_nullable(pa.int32()),  # size of neighborhoods
    value=_nullable(pa.float64()),
    unit=pa.string(),
    low=_nullable(pa.float64()),  # 95% interval, of numbers that the text gives
    high=_nullable(pa.float64()),
    method=_nullable(pa.string()),  # of the interval, or why there is none; null where none is computed
    gap=_nullable(pa.string()),  # why there is no value
)
