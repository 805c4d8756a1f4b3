"""One pinned seed, response key, sealed row and table of each stage: a refactoring must not change any of them.

The inputs are written by hand. No model runs, so the values are equal on every processor. A deliberate change
of a response key raises PROTOCOL_VERSION, and then the keys here change with it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast

from stair.config.resolve import resolve
from stair.core import EngineIdentity, Place, Problem, ReadSpecification, user_message
from stair.engines.base import SamplingSettings
from stair.paper.make import tables_from
from stair.records.keys import PROTOCOL_VERSION, digest_of, file_digest
from stair.records.rows import Rollout, SourceRecord
from stair.records.schemas import RESPONSES, ROLLOUTS
from stair.records.seeds import seed_of
from stair.records.tables import read_table, write_table
from stair.records.worklog import WorkLogWriter
from stair.sessions.banks import BankStore
from stair.sessions.renderer import Renderer
from stair.sessions.run import sealed_rows
from stair.sessions.trajectory import Control, Generation, Question, Trajectory, questions
from stair.stages.sessions.evaluation_sessions import evaluation_sessions
from stair.stages.sessions.training_sessions import training_sessions
from tests.statistics.paper_rows import rows_of_evaluation, write_rows

ROOT = Path(__file__).parents[2]
ENGINE = EngineIdentity("transformers", "1", "sdpa", "float32")
LAW = SamplingSettings(temperature=0.7, top_p=0.8, top_k=20)
PROBLEMS = [Problem(f"p{number}", f"What is {number} + {number}?") for number in range(4)]
PROMPT = "{problem} Put the answer into a box."
RECORDS = [SourceRecord(f"r{number}", f"p{number}", f"{number} + 1", "", "train") for number in range(4)]


@pytest.fixture
def plain(small_tokenizer: Callable[..., PreTrainedTokenizerFast]) -> Renderer:
    return Renderer(small_tokenizer(False), thinking=False, stop_ids=(0, 1))


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All tables from rows that have the paper's counts."""
    folder = tmp_path_factory.mktemp("rows")
    write_rows(rows_of_evaluation(), folder)
    tables_from(folder, folder / "out", resolve(ROOT, {"run": "paper"}))
    return folder / "out"


def answered(number: int, **more: Any) -> dict[str, Any]:
    """A record of the log."""
    return dict(
        response=f"The answer is {number}.",
        response_ids=[40 + number, 7, 0],
        response_tokens=3,
        finish_reason="stop",
        engine="transformers",
        engine_version="1",
        attention="sdpa",
        dtype="float32",
        device="cpu",
        **more,
    )


def logged(trajectory: Trajectory, work: Path, record_of: Callable[[int], dict[str, Any]]) -> list[str]:
    """Takes a trajectory to its end with written records, which go into the stage's log; its keys."""
    keys: list[str] = []
    with WorkLogWriter(work / "log", "shard-0-of-1") as log:
        key = trajectory.advance()
        while isinstance(key, str):
            record = record_of(len(keys))
            log.append(key, record)
            keys.append(key)
            key = trajectory.advance((record, None))
    assert key is None
    return keys


def sealed(path: Path, schema: Any, trajectory: Trajectory, work: Path) -> list[dict[str, Any]]:
    write_table(path, schema, sealed_rows([trajectory], work))
    return read_table(path, schema)


def rollout(plain: Renderer) -> Trajectory:
    record, sample = RECORDS[1], 2
    names = dict(model="m", record_id=record.record_id, problem_id=record.problem_id, sample=sample)
    seed = seed_of("rollouts", "pool", "m", record.record_id, sample)
    assert seed == 2930068926363111425
    settings = Generation("revision", ENGINE, plain, LAW, 9, tuple(ROLLOUTS.names))
    return Trajectory(settings, [Question(user_message(PROMPT, record.problem), seed, names)])


def session(
    plain: Renderer,
    folder: Path,
    read: ReadSpecification | None,
    *,
    turns: int = 4,
    study: str = "evaluation",
) -> Trajectory:
    settings = Generation(
        model_revision="revision",
        engine=ENGINE,
        renderer=plain,
        sampling=LAW,
        max_new_tokens=9,
        columns=tuple(RESPONSES.names),
        control=Control("c" * 64, (1, 3), True) if read is not None else None,
        banks=BankStore(folder / "banks"),
    )
    place = Place("m", "b", "native" if read is None else "stair")
    return Trajectory(settings, questions(place, "s-p0", 1, PROBLEMS[:turns], study, read))


def a_turn(reads: bool) -> Callable[[int], dict[str, Any]]:
    def record(number: int) -> dict[str, Any]:
        read = reads and number > 0
        return answered(
            number,
            bank_sha256=f"{number}" * 64 if read else None,
            bank_source="decoded" if read else None,
            controlled_tokens=5 if read else 0,
            readout_norm=0.5 if read else 0.0,
        )

    return record


def test_a_rollout(plain: Renderer, tmp_path: Path) -> None:
    assert PROTOCOL_VERSION == 3, "the keys below are this version's"
    keys = logged(rollout(plain), tmp_path, answered)
    assert keys == ["0d0d970bf02a1b4d52a837e64442504ce732612b172a48c4eec393341246a788"]
    (row,) = sealed(tmp_path / "rows.parquet", ROLLOUTS, rollout(plain), tmp_path)
    assert digest_of(row) == "cf185b12fa919668f2af92bfa17c2f70635a5c27742e86d7ea778b7556a71533"


FIRST_KEY = "88195d49deadcd05c8d74491798d4b8f64b92b57ee780881f2666fa507443cbc"
"""T1 reads no bank, so its key is the same under both conditions."""
NATIVE_KEYS = [
    FIRST_KEY,
    "4fabd20ed72337021cef7c09cbc45dd41335b05017bdacbb3a95e1dc808842e9",
    "263397998de6becb6aa1774f4b1e570c3ce0dca7693e87053d3234b49ea7de68",
    "916bf08aa7ccab3d1f8e2b842b3a1c45678ee097ff5c36aecb98de0065da7580",
]
STAIR_KEYS = [
    FIRST_KEY,
    "096cdebf64a2b0e9e7174e81de4bde8b3b9287ee0de9e509c5403754f6f8c728",
    "502a5b63e65d561dc6f80e7a40ea782fdb2f17b3dd99be293e5bee9eb7f410d4",
    "2fc2c6d0170df6107139ef7bb0d1d78feb8366da1af828421ad926d25a27a107",
]
SEEDS = [8933089363005487640, 8617005822081093643, 7146163555858634429, 1912654314796355343]


@pytest.mark.parametrize(
    ("reads", "keys", "rows"),
    [
        (False, NATIVE_KEYS, "af7f7b8c38a7948e0603016314e209035e5909a4b9ea3fe887dd85bd26ded6ab"),
        (True, STAIR_KEYS, "4f967126fab11740cd3a7ab770b7a09f1145871266dc16af287910d7286090d8"),
    ],
    ids=["native", "stair"],
)
def test_a_session(plain: Renderer, tmp_path: Path, reads: bool, keys: list[str], rows: str) -> None:
    read = ReadSpecification() if reads else None
    assert logged(session(plain, tmp_path, read), tmp_path, a_turn(reads)) == keys
    found = sealed(tmp_path / "rows.parquet", RESPONSES, session(plain, tmp_path, read), tmp_path)
    assert [row["seed"] for row in found] == SEEDS
    assert digest_of(found) == rows


@pytest.mark.parametrize(
    ("read", "key"),
    [
        (ReadSpecification("direct"), "a7fa9565d60123b97fc559b932a469681c98ae7ed3d83578861cfaf22a53155f"),
        (ReadSpecification(permutation_seed=2), "692a174c1d3079cfb127fa4bac9710224acdcc8ba53faf60fcb0eae023b5c5bb"),
        (ReadSpecification(limit=2048), "875e202211fabb11a83db749beb384f160a19dcedea565b7b944f065b970c48a"),
    ],
    ids=["direct_read", "kv_permutation", "stair_prefix"],
)
def test_the_second_turn_of_a_control(plain: Renderer, tmp_path: Path, read: ReadSpecification, key: str) -> None:
    """The study's name decides the seed, the read specification the key."""
    trajectory = session(plain, tmp_path, read, turns=2, study="shared-t1")
    assert trajectory.questions[1].seed == 2291328501298991987
    assert logged(trajectory, tmp_path, a_turn(True))[1] == key


def test_the_order_of_sessions() -> None:
    schedule = evaluation_sessions([problem.problem_id for problem in PROBLEMS], "b", "sessions")
    assert digest_of(schedule) == "a55bf514583436ac09cb965d96ea7078f756f83296c8a6d47c765b7bf2788f81"
    grouped = {
        record.record_id: [Rollout(record.record_id, record.problem_id, sample, 1) for sample in range(4)]
        for record in RECORDS
    }
    found = training_sessions(grouped, "sessions", "train", "m")
    assert digest_of(found) == "55bc2d9a353f8eeff1ab8e5a879c94a03c0ed295f615b7d953a8faa572af9627"


@pytest.mark.parametrize(
    ("table", "digest"),
    [
        ("native_accuracy", "bed9f6a3b1f9c122"),
        ("history_qwen3.5-4b", "5d30e33556c80197"),
        ("turns_qwen3.5-9b", "c81632c78546a2b9"),
    ],
)
def test_a_table(tables: Path, table: str, digest: str) -> None:
    assert file_digest(tables / f"{table}.csv").startswith(digest)
