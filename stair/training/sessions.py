"""The sessions of a training with the texts and responses that they name, held to what training needs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.core import TURNS, user_message
from stair.records.schemas import ROLLOUTS, TRAINING_POOL, TRAINING_SESSIONS
from stair.records.seeds import hash_order
from stair.records.tables import read_ids, read_table
from stair.training.replay import RecordedTurn

Item = TypeVar("Item")


def recorded_sessions(
    config: Config, paths: RunPaths, model: str, path: Path, vocabulary: int
) -> dict[str, list[RecordedTurn]]:
    """The sessions of a table, by their names.

    Args:
        vocabulary: ids of the model's tokenizer.

    Raises:
        ValueError: a session does not have four turns of four distinct problems, names a response that is not there, or a
            response is empty or holds an id that is no token; the row is named.
    """
    prompt = config.prompts[config.training_pool.prompt]
    users = {
        row["record_id"]: user_message(prompt, row["problem"])
        for row in read_table(paths.training_pool(model), TRAINING_POOL)
    }
    rows: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in read_table(path, TRAINING_SESSIONS):
        rows[row["session_id"]].append(row)
    for name, turns in rows.items():
        if [row["turn"] for row in turns] != list(range(1, TURNS + 1)):
            raise ValueError(f"{path}: session {name} has the turns {[row['turn'] for row in turns]}, not 1 to {TURNS}")
        problems = [row["problem_id"] for row in turns]
        for place, problem in enumerate(problems):
            if problem in problems[:place]:
                raise ValueError(f"{path}: session {name}, turn {place + 1}: the problem {problem} stands in it twice")
    responses = _responses(paths.rollouts(model), rows, vocabulary)
    return {name: [_turn(path, row, responses, users) for row in turns] for name, turns in rows.items()}


def _responses(
    path: Path, sessions: Mapping[str, Sequence[Mapping[str, Any]]], vocabulary: int
) -> dict[tuple[str, int], Sequence[int]]:
    """The responses that sessions name, by record and sample."""
    wanted = {(row["record_id"], row["sample"]) for turns in sessions.values() for row in turns}
    found = {}
    for record, sample, ids in read_ids(path, ROLLOUTS, ["record_id", "sample"], "response_ids"):
        if (record, sample) not in wanted:
            continue
        numbers = np.asarray(ids)
        outside = numbers[(numbers < 0) | (numbers >= vocabulary)]
        if len(outside):
            raise ValueError(
                f"{path}: response {record}, sample {sample}: token {outside[0]} is outside the vocabulary of {vocabulary}"
            )
        found[record, sample] = ids
    return found


def _turn(
    path: Path,
    row: Mapping[str, Any],
    responses: Mapping[tuple[str, int], Sequence[int]],
    users: Mapping[str, str],
) -> RecordedTurn:
    record, sample = row["record_id"], row["sample"]
    ids = responses.get((record, sample))
    if not ids or record not in users:
        raise ValueError(
            f"{path}: session {row['session_id']}, turn {row['turn']}: there is no response {record}, sample {sample}"
        )
    return RecordedTurn(users[record], ids, row["weight"])


def in_updates(sessions: Mapping[str, Item], size: int, epochs: int, seed: str) -> list[list[Item]]:
    """The sessions of every update, each epoch in an order by hash; the last update of an epoch has what is left."""
    updates: list[list[Item]] = []
    for epoch in range(epochs):
        order: Sequence[str] = hash_order(sessions, seed, "epoch", epoch)
        updates += [[sessions[name] for name in order[i : i + size]] for i in range(0, len(order), size)]
    return updates
