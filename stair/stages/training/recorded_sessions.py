"""The sessions of a training with their texts and responses, checked against the needs of training."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.core import TURNS, user_message
from stair.records.rows import SourceRecord, TrainingTurn
from stair.records.schemas import ROLLOUTS, TRAINING_POOL, TRAINING_SESSIONS
from stair.records.seeds import hash_order
from stair.records.tables import rows_as
from stair.stages.training.teacher_forcing import RecordedTurn

Item = TypeVar("Item")


class _Response(NamedTuple):
    record_id: str
    sample: int
    response_ids: Sequence[int]


def recorded_sessions(
    config: Config, paths: RunPaths, model: str, path: Path, vocabulary: int
) -> dict[str, list[RecordedTurn]]:
    """The sessions of a table, by their names; `vocabulary` is the number of the tokenizer's ids.

    Raises ValueError, with the row, for a session without four turns of four problems, a missing or empty response, or an id
    outside the vocabulary.
    """
    prompt = config.prompts[config.training_pool.prompt]
    users = {
        record.record_id: user_message(prompt, record.problem)
        for record in rows_as(paths.training_pool(model), TRAINING_POOL, SourceRecord)
    }
    sessions: dict[str, list[TrainingTurn]] = defaultdict(list)
    for turn in rows_as(path, TRAINING_SESSIONS, TrainingTurn):
        sessions[turn.session_id].append(turn)
    for name, turns in sessions.items():
        numbers = [one.turn for one in turns]
        if numbers != list(range(1, TURNS + 1)):
            raise ValueError(f"{path}: session {name} has the turns {numbers}, not 1 to {TURNS}")
        problems = [one.problem_id for one in turns]
        for place, problem in enumerate(problems):
            if problem in problems[:place]:
                raise ValueError(f"{path}: session {name}, turn {place + 1} repeats the problem {problem}")
    responses = _responses(paths.rollouts(model), sessions, vocabulary)
    return {name: [_recorded(path, one, responses, users) for one in turns] for name, turns in sessions.items()}


def _responses(
    path: Path, sessions: Mapping[str, Sequence[TrainingTurn]], vocabulary: int
) -> dict[tuple[str, int], Sequence[int]]:
    needed = {(one.record_id, one.sample) for turns in sessions.values() for one in turns}
    responses = {}
    for record, sample, ids in rows_as(path, ROLLOUTS, _Response):
        if (record, sample) not in needed:
            continue
        numbers = np.asarray(ids)
        outside = numbers[(numbers < 0) | (numbers >= vocabulary)]
        if len(outside):
            raise ValueError(
                f"{path}: response {record}, sample {sample}: token {outside[0]} is outside the vocabulary of {vocabulary}"
            )
        responses[record, sample] = ids
    return responses


def _recorded(
    path: Path,
    turn: TrainingTurn,
    responses: Mapping[tuple[str, int], Sequence[int]],
    users: Mapping[str, str],
) -> RecordedTurn:
    record, sample = turn.record_id, turn.sample
    ids = responses.get((record, sample))
    if not ids or record not in users:
        raise ValueError(
            f"{path}: session {turn.session_id}, turn {turn.turn}: there is no response {record}, sample {sample}"
        )
    return RecordedTurn(users[record], ids, turn.weight)


def in_updates(sessions: Mapping[str, Item], size: int, epochs: int, seed: str) -> list[list[Item]]:
    """The sessions of every update, each epoch in an order by hash; the last update of an epoch has the rest."""
    updates: list[list[Item]] = []
    for epoch in range(epochs):
        order: Sequence[str] = hash_order(sessions, seed, "epoch", epoch)
        updates += [[sessions[name] for name in order[i : i + size]] for i in range(0, len(order), size)]
    return updates
