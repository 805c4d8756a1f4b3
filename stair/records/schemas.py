"""The columns of every table on disk (Parquet)."""

from __future__ import annotations

import pyarrow as pa

_IDS = pa.list_(pa.int32())


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


BENCHMARK = _schema(
    problem_id=pa.string(),  # from the normalised text
    source_id=pa.string(),  # the data set's own name for the problem
    problem=pa.string(),  # as the prompt shows it, choices included
    reference=pa.string(),
    kind=pa.string(),  # math, integer, choice
    choices=_nullable(pa.list_(pa.string())),  # in the fixed order of A to D
)

TRAINING_POOL = _schema(
    record_id=pa.string(),  # a distinct (prompt text, answer)
    problem_id=pa.string(),
    problem=pa.string(),
    reference=pa.string(),
    split=pa.string(),  # train, validation
)

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
    batch_invariant=_nullable(
        pa.bool_()
    ),  # whether one prompt had the same tokens alone and among others; null: not known
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

EVALUATION_SESSIONS = _schema(session_id=pa.string(), turn=pa.int32(), problem_id=pa.string())

TRAINING_SESSIONS = _schema(
    session_id=pa.string(),
    turn=pa.int32(),
    record_id=pa.string(),
    problem_id=pa.string(),
    sample=pa.int32(),
    weight=pa.float64(),  # w_r; zero at T1, which is not supervised
)

REPLAY_HISTORIES = _schema(
    group=pa.int32(),  # 1 or 2
    history=pa.string(),  # <session_id>-<sample>
    session_id=pa.string(),
    sample=pa.int32(),
    sources=pa.list_(pa.string()),  # the problems of its turns
    prefix_tokens=_IDS,  # tokens of the whole prefix, by depth from 1
    block=pa.int32(),  # source block among the group's histories, from 1
    problem_coverage_block=_nullable(pa.int32()),  # among those of the problem coverage; null: not in it
)

REPLAY_PROBLEMS = _schema(
    group=pa.int32(),
    problem_id=pa.string(),
    history_coverage=pa.bool_(),  # crossed with all histories of the group, not only those of the problem coverage
    turn_tokens=pa.int32(),  # from the user header to the end of the prompt
    body_tokens=pa.int32(),  # of the user body, over which measurements are averaged
)

REPLAY_CELLS = _schema(
    group=pa.int32(),
    history=_nullable(pa.string()),  # null: the reference without history
    depth=pa.int32(),  # completed turns; 0 without history
    problem_id=pa.string(),
    history_coverage=pa.bool_(),
    problem_coverage=pa.bool_(),
    prefix_tokens=pa.int32(),
    file=pa.string(),  # in the folder states
    row=pa.int32(),  # of the file's tensors
    sha256=pa.string(),  # of the file
)

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
