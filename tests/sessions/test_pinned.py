"""One pinned seed, response key, sealed row and table of each stage: a refactoring must not change any of them.

The inputs are written by hand. No model runs, so the values are equal on every processor. A deliberate change
of a response key raises PROTOCOL_VERSION, and then the keys here change with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast

from stair.config.resolve import resolve
from stair.core import EngineIdentity, Problem, ReadSpecification
from stair.engines.base import SamplingSettings
from stair.paper.make import tables_from
from stair.records.keys import PROTOCOL_VERSION, digest_of, file_digest
from stair.records.rows import Rollout, SourceRecord
from stair.records.schemas import RESPONSES, ROLLOUTS
from stair.records.tables import read_table, write_table
from stair.records.worklog import WorkLogWriter
from stair.sessions.banks import BankStore
from stair.sessions.chain import Chain
from stair.sessions.chain_shards import sealed_rows
from stair.sessions.renderer import Renderer
from stair.sessions.session import ControllerUse, SessionChain, SessionProtocol
from stair.stages.rollouts.rollout import RolloutChain, RolloutSettings
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


def logged(chain: Chain, work: Path, record_of: Callable[[int, bool], dict[str, Any]]) -> list[str]:
    """Takes a chain to its end with written records, which go into the stage's log; its keys."""
    keys = []
    with WorkLogWriter(work / "log", "shard-0-of-1") as log:
        while (step := chain.next()) is not None:
            record = record_of(len(keys), step.reconstructs)
            log.append(step.key, record)
            chain.append_record(record)
            keys.append(step.key)
    return keys


def sealed(path: Path, schema: Any, chains: Iterable[Chain], work: Path) -> list[dict[str, Any]]:
    write_table(path, schema, sealed_rows(chains, work, []))
    return read_table(path, schema)


def rollout(plain: Renderer) -> RolloutChain:
    settings = RolloutSettings("m", "pool", "revision", ENGINE, plain, LAW, 9, PROMPT, "rollouts")
    return RolloutChain(settings, RECORDS[1], 2)


def session(plain: Renderer, folder: Path, *, reads: bool) -> SessionChain:
    control = ControllerUse("c" * 64, (1, 3), ReadSpecification()) if reads else None
    protocol = SessionProtocol(
        model="m",
        benchmark="b",
        condition="stair" if reads else "native",
        model_revision="revision",
        engine=ENGINE,
        renderer=plain,
        sampling=LAW,
        max_new_tokens=9,
        study="evaluation",
        turns=4,
        control=control,
        banks=BankStore(folder / "banks"),
    )
    return SessionChain(protocol, "s-p0", 1, PROBLEMS)


def a_turn(reads: bool) -> Callable[[int, bool], dict[str, Any]]:
    def record(number: int, reconstruction: bool) -> dict[str, Any]:
        assert not reconstruction, "T1 is generated here, and captured with it"
        captured = reads and number < 3
        return answered(
            number,
            segment=f"{number}" * 64 if captured else None,
            captured_tokens=2 if captured else None,
            controlled_tokens=5 if reads and number else 0,
            readout_norm=0.5 if reads and number else 0.0,
        )

    return record


def test_a_rollout(plain: Renderer, tmp_path: Path) -> None:
    assert PROTOCOL_VERSION == 2, "the keys below are this version's"
    chain = rollout(plain)
    assert chain.seed == 2930068926363111425
    keys = logged(chain, tmp_path, lambda number, _: answered(number, batch_invariant=None))
    assert keys == ["bca7d28ffb1b22f72fcddcf23abeb74ea6d7cfff51dc19f9af48c8e401ce0481"]
    (row,) = sealed(tmp_path / "rows.parquet", ROLLOUTS, [rollout(plain)], tmp_path)
    assert digest_of(row) == "4bbefe2628f67938f1209ace27bc1651babd3a6ad5b60aeddead973c641d6703"


FIRST_KEY = "3105cd1814f6c9e1a41e56876fc3375a632d68106e340c47f0982f2b34466ce0"
"""T1 reads no bank, so its key is the same under both conditions."""
NATIVE_KEYS = [
    FIRST_KEY,
    "3e82cfcb908dc22cae0be642142d1f550df2afa08becd1981cc612a333031783",
    "7e5b6b423dc852ae6dca6dfa4ed11178ad45839a2d8212961bcdaec0db406561",
    "006725eaa00ad33398be9dcca6e1fad471a11221c1f1fb9c8af6dfbf38456d6e",
]
STAIR_KEYS = [
    FIRST_KEY,
    "b2bc179ae6f4d7d9f91f5a40ddc54db95a8afbea8a970d28c71da6c2287a08ed",
    "465eb4cddf0b6ec7da281b765641d7b8c2a170e4042f0b4eb6a8f93d436a3423",
    "c6e17980e3b21ba0a2dc7482abfbf84c7a846cd0387eb31c8525cc20f424bef6",
]
SEEDS = [8933089363005487640, 8617005822081093643, 7146163555858634429, 1912654314796355343]


@pytest.mark.parametrize(
    ("reads", "keys", "rows"),
    [
        (False, NATIVE_KEYS, "af7f7b8c38a7948e0603016314e209035e5909a4b9ea3fe887dd85bd26ded6ab"),
        (True, STAIR_KEYS, "335b0c26462b1a716329a849baa942f1b38187b0c601db5dc000c97c35059aec"),
    ],
    ids=["native", "stair"],
)
def test_a_session(plain: Renderer, tmp_path: Path, reads: bool, keys: list[str], rows: str) -> None:
    assert logged(session(plain, tmp_path, reads=reads), tmp_path, a_turn(reads)) == keys
    found = sealed(tmp_path / "rows.parquet", RESPONSES, [session(plain, tmp_path, reads=reads)], tmp_path)
    assert [row["seed"] for row in found] == SEEDS
    assert digest_of(found) == rows


@pytest.mark.parametrize(
    ("read", "key"),
    [
        (ReadSpecification("direct"), "973a508c31e81de6d4888b8846e82fa1b1897a9d9f62e4b39ca503b1ef450e3d"),
        (ReadSpecification(permutation_seed=2), "c117662663f09597e6dd2ae28eb3081e8d9bcd6792fe3d67a588d97394243596"),
        (ReadSpecification(limit=2048), "584cfd871831595650eeac325ebebeff24c406227a53769a9dbeb79e4446d654"),
    ],
    ids=["direct_read", "kv_permutation", "stair_prefix"],
)
def test_the_second_turn_of_a_control(plain: Renderer, tmp_path: Path, read: ReadSpecification, key: str) -> None:
    """The study's name decides the seed, the read specification the key."""
    protocol = replace(
        session(plain, tmp_path, reads=True).protocol,
        study="shared-t1",
        turns=2,
        control=ControllerUse("c" * 64, (1, 3), read),
    )
    assert protocol.seed("p1", 1) == 2291328501298991987
    assert logged(SessionChain(protocol, "s-p0", 1, PROBLEMS), tmp_path, a_turn(True))[1] == key


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
