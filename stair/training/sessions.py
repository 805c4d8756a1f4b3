"""The sessions of a training with the texts and responses that they name, held to what training needs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.records.schemas import ROLLOUTS, TRAINING_POOL, TRAINING_SESSIONS
from stair.records.seeds import hash_order
from stair.records.tables import read_table
from stair.training.replay import RecordedTurn

TURNS = 4
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
    responses = {
        (row["record_id"], row["sample"]): tuple(row["response_ids"])
        for row in read_table(paths.rollouts(model), ROLLOUTS, ["record_id", "sample", "response_ids"])
    }
    prompt = config.prompts[config.training_pool.prompt]
    users = {
        row["record_id"]: prompt.replace("{problem}", row["problem"])
        for row in read_table(paths.training_pool(model), TRAINING_POOL)
    }
    rows: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in read_table(path, TRAINING_SESSIONS):
        rows[row["session_id"]].append(row)
    sessions = {}
    for name, turns in rows.items():
        if [row["turn"] for row in turns] != list(range(1, TURNS + 1)):
            raise ValueError(f"{path}: session {name} has the turns {[row['turn'] for row in turns]}, not 1 to {TURNS}")
        problems = [row["problem_id"] for row in turns]
        for place, problem in enumerate(problems):
            if problem in problems[:place]:
                raise ValueError(f"{path}: session {name}, turn {place + 1}: the problem {problem} stands in it twice")
        sessions[name] = [_turn(path, paths.rollouts(model), row, responses, users, vocabulary) for row in turns]
    return sessions


def _turn(
    path: Path,
    rollouts: Path,
    row: Mapping[str, Any],
    responses: Mapping[tuple[str, int], tuple[int, ...]],
    users: Mapping[str, str],
    vocabulary: int,
) -> RecordedTurn:
    record, sample = row["record_id"], row["sample"]
    ids = responses.get((record, sample))
    if not ids or record not in users:
        raise ValueError(
            f"{path}: session {row['session_id']}, turn {row['turn']}: there is no response {record}, sample {sample}"
        )
    bad = next((token for token in ids if not 0 <= token < vocabulary), None)
    if bad is not None:
        raise ValueError(
            f"{rollouts}: response {record}, sample {sample}: token {bad} is outside the vocabulary of {vocabulary}"
        )
    return RecordedTurn(users[record], ids, row["weight"])


def in_updates(sessions: Mapping[str, Item], size: int, epochs: int, seed: str) -> list[list[Item]]:
    """The sessions of every update, each epoch in an order by hash; the last update of an epoch has what is left."""
    updates: list[list[Item]] = []
    for epoch in range(epochs):
        order: Sequence[str] = hash_order(sessions, seed, "epoch", epoch)
        updates += [[sessions[name] for name in order[i : i + size]] for i in range(0, len(order), size)]
    return updates
