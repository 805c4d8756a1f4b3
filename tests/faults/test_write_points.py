"""SIGKILL at every write point of a stage, and again in its resume: the outputs are those of a run that nobody disturbed."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from stair.records import worklog
from stair.records.files import remove_unfinished
from stair.records.manifest import Origin, write_manifest
from stair.records.schemas import RESPONSES
from stair.records.shards import Shard
from stair.records.tables import write_table
from stair.records.worklog import WorkLog, WorkLogWriter
from stair.sessions.run import run_shard, sealed_rows
from tests.faults.harness import Kill, every_kill, forked, some_of
from tests.privileges import give_up_capabilities
from tests.sessions.conftest import made
from tests.sessions.protocol_cases import Study, WatchedEngine, fresh

pytestmark = [pytest.mark.faults, pytest.mark.timeout(400)]

CONDITION = "stair"


@pytest.fixture(scope="module")
def study(
    small_model: Callable[..., PreTrainedModel],
    small_tokenizer: Callable[..., PreTrainedTokenizerFast],
    tmp_path_factory: pytest.TempPathFactory,
) -> Study:
    """Two sessions of STAIR on a small model: T1 from Vanilla, whose states are replayed, and three turns that are generated."""
    found = made("qwen3", small_model, small_tokenizer, tmp_path_factory.mktemp("study"))
    found.sessions, found.samples = 2, 1
    # Every record to the disk at once, so that the write points do not depend on the clock.
    worklog._SYNC_SECONDS = -1.0
    return found


WHOLE = Shard(0, 1)


def generate(
    study: Study, folder: Path, shard: Shard = WHOLE, condition: str = CONDITION, stop_after: int | None = None
) -> None:
    """One shard, as the stage's command runs it."""
    here = fresh(study, folder)
    run_shard(
        lambda _: shard.share(here.trajectories(condition)),
        folder / condition,
        shard,
        lambda: WatchedEngine(study.model, stop_after=stop_after),
        (folder / "progress", condition),
    )


def seal(study: Study, folder: Path) -> None:
    """The table with its manifest."""
    output = folder / "responses" / f"{CONDITION}.parquet"
    trajectories = sorted(fresh(study, folder).trajectories(CONDITION), key=str)
    count = write_table(output, RESPONSES, sealed_rows(trajectories, folder / CONDITION))
    names = {"rule": "seal_evaluation", "wildcards": {"condition": CONDITION}}
    write_manifest(folder, [output], **names, origin=Origin.now({}, {"turns": 4}, "0" * 64), responses=count)


def whole(study: Study) -> Callable[[Path], None]:
    """Generating in two shards and sealing, in one process."""

    def job(folder: Path) -> None:
        for shard in range(2):
            generate(study, folder, Shard(shard, 2))
        seal(study, folder)

    return job


def outputs(folder: Path) -> dict[str, Any]:
    """Everything that lies in a finished folder, but for the time of sealing and the checksum that covers it."""
    remove_unfinished(folder)
    found: dict[str, Any] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder).as_posix()
        if name.startswith("progress") or "/attempts/" in name:
            continue
        if name.endswith("manifest.json"):
            found[name] = json.loads(path.read_text()) | {"sealed": None, "sha256": None}
        elif "/log/" in name:  # which attempt wrote a record decides its file and place, not what it is
            lines = (line for log in path.parent.glob("*.log") for line in log.read_bytes().splitlines(keepends=True))
            found["log"] = sorted({line for line in lines if worklog._payload(line) is not None})
        else:
            found[name] = path.read_bytes()
    return found


@pytest.fixture(scope="module")
def undisturbed(study: Study, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], list[str]]:
    """The outputs of a run that nobody disturbed, and its write points."""
    folder = tmp_path_factory.mktemp("undisturbed")
    points = forked(whole(study), folder).points
    found = outputs(folder)
    assert set(found) == {
        "log", f"responses/{CONDITION}.parquet", f"responses/{CONDITION}.parquet.manifest.json",
        "stair/shard-0-of-2.done", "stair/shard-1-of-2.done",
    }  # fmt: skip
    assert len(found["log"]) == 6
    return found, points


def test_the_write_points_are_those_of_every_part(undisturbed: tuple[dict[str, Any], list[str]]) -> None:
    points = "\n".join(undisturbed[1])
    for part in (
        "open stair/log/shard-0-of-2.000.log", "write stair/log/shard-0-of-2.000.log",
        "fsync stair/log/shard-0-of-2.000.log", "replace stair/banks/", "unlink stair/banks/",
        "open stair/log/attempts/shard-0-of-2.000.log", "replace responses/.stair.parquet.", "manifest.json",
    ):  # fmt: skip
        assert part in points, part


def test_a_kill_at_any_write_point_and_another_in_the_resume_change_nothing(
    study: Study, undisturbed: tuple[dict[str, Any], list[str]], tmp_path: Path
) -> None:
    expected, points = undisturbed
    seconds = 0
    for number, kill in enumerate(every_kill(points, of_a_kind=2)):
        folder = tmp_path / str(number)
        folder.mkdir()
        where = f"{kill} ({points[kill.number]})"
        first = forked(whole(study), folder, kill)
        assert first.killed, where
        done = sum(point.startswith("write stair/log/shard-") for point in first.points) - (kill.mode != "after")
        kept = set(WorkLog(folder / CONDITION / "log").keys())
        assert len(kept) >= min(done, 6), f"{where}: a record that was written is gone"
        second = forked(whole(study), folder, Kill(some_of(len(points), number)))
        seconds += second.killed
        assert kept <= set(WorkLog(folder / CONDITION / "log").keys()), f"{where}, then {second.points[-1:]}"
        forked(whole(study), folder)
        assert outputs(folder) == expected, f"{where}, then killed at {second.points[-1:]}"
        shutil.rmtree(folder)
    assert seconds > number // 2, "the resumes were hardly killed"


def test_a_kill_at_any_write_point_after_a_loss_of_states_changes_nothing(study: Study, tmp_path: Path) -> None:
    """Both sessions have T1 and T2, whose states are lost. A kill in the resume comes before, between and after their
    reconstructions."""
    condition = "own_first"
    lost = tmp_path / "lost"
    lost.mkdir()
    with pytest.raises(KeyboardInterrupt):
        generate(study, lost, condition=condition, stop_after=4)
    shutil.rmtree(lost / condition / "banks")

    def resume(folder: Path) -> None:
        generate(study, folder, condition=condition)

    def resumed(name: str, kill: Kill | None = None) -> tuple[dict[str, Any], list[str]]:
        folder = shutil.copytree(lost, tmp_path / name)
        points = forked(resume, folder, kill).points
        if kill is not None:
            forked(resume, folder)
        return outputs(folder), points

    expected, points = resumed("undisturbed")
    assert sum(b'"bank_source":"replayed"' in line for line in expected["log"]) == 2
    for number, kill in enumerate(every_kill(points, of_a_kind=2)):
        assert resumed(str(number), kill)[0] == expected, f"{kill} ({points[kill.number]})"


def test_two_then_five_then_one_shard_with_kills_between(
    study: Study, undisturbed: tuple[dict[str, Any], list[str]], tmp_path: Path
) -> None:
    wide = Study(study.model, study.renderer, study.folder, 5, 1, study.first_rows)
    alone, folder = tmp_path / "alone", tmp_path / "sharded"
    for each in (alone, folder):
        each.mkdir()
    forked(whole(wide), alone)

    def shard(number: int, of: int, kill: Kill | None = None) -> None:
        forked(lambda place: generate(wide, place, Shard(number, of)), folder, kill)

    shard(0, 2, Kill(20))
    shard(1, 2, Kill(12))
    for number in range(5):
        shard(number, 5, Kill(5 + 4 * number) if number % 2 else None)
    shard(0, 1, Kill(5))
    shard(0, 1)
    forked(lambda place: seal(wide, place), folder)
    expected, found = outputs(alone), outputs(folder)
    assert {name: each for name, each in found.items() if "shard-" not in name} == {
        name: each for name, each in expected.items() if "shard-" not in name
    }
    assert {"stair/shard-0-of-1.done", *(f"stair/shard-{number}-of-5.done" for number in (0, 2, 4))} <= found.keys()
    assert WorkLog(folder / CONDITION / "log").counts.duplicates == 0


def refused(job: Callable[[Path], None], folder: Path, before: Callable[[], None] = lambda: None) -> str:
    """The message with which a job in a child of its own ends."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            before()
            job(folder)
        except (ValueError, OSError) as error:
            os.write(writer, str(error).encode())
        os._exit(0)
    os.close(writer)
    told = os.read(reader, 1 << 16).decode()
    os.close(reader)
    os.waitpid(child, 0)
    return told


@pytest.mark.parametrize("limit", [0, 100, 900, 4000])
def test_a_full_disk_ends_with_an_error_and_is_gone_on_from(
    study: Study, undisturbed: tuple[dict[str, Any], list[str]], tmp_path: Path, limit: int
) -> None:
    def fill() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    message = refused(whole(study), tmp_path, fill)
    assert "File too large" in message, message
    kept = set(WorkLog(tmp_path / CONDITION / "log").keys())
    forked(whole(study), tmp_path)
    assert kept <= set(WorkLog(tmp_path / CONDITION / "log").keys())
    assert outputs(tmp_path) == undisturbed[0]


def test_a_read_only_folder_is_one_error_and_stays_as_it_is(study: Study) -> None:
    base = Path(tempfile.mkdtemp(prefix="read-only-"))
    try:
        folder = base / "run"
        forked(lambda place: generate(study, place), _made(folder))
        before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
        for path in (base, *folder.rglob("*"), folder):
            path.chmod(path.stat().st_mode & ~0o222 | 0o444 | (0o111 if path.is_dir() else 0))

        for job in (lambda place: generate(study, place), lambda place: seal(study, place)):
            message = refused(job, folder, give_up_capabilities)
            assert "Permission denied" in message
            assert str(folder) in message
        assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    finally:
        for path in (base, *base.rglob("*")):
            path.chmod(path.stat().st_mode | stat.S_IRWXU)
        shutil.rmtree(base)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_strange_files_in_a_log_change_nothing(
    study: Study, undisturbed: tuple[dict[str, Any], list[str]], tmp_path: Path
) -> None:
    """An empty file, a record of another key, a torn record, a duplicate, and a line that is none."""
    expected, _ = undisturbed
    log = tmp_path / CONDITION / "log"
    log.mkdir(parents=True)
    (log / "empty.000.log").touch()
    (log / "noise.000.log").write_bytes(b"no record\n" + bytes(range(256)) + b"\n")
    (log / "torn.000.log").write_bytes(expected["log"][0][:-7])
    # The whole first session: states that a later turn needs and that are not there would be reconstructed, as rows then say.
    whole_log = tmp_path / "whole"
    whole_log.mkdir()
    (whole_log / "all.000.log").write_bytes(b"".join(expected["log"]))
    records, trajectory = WorkLog(whole_log), study.trajectories(CONDITION)[0]
    lines = {worklog._key(worklog._payload(line) or b""): line for line in expected["log"]}
    key = trajectory.advance()
    while isinstance(key, str):
        (log / f"{key[:9]}.000.log").write_bytes(lines[key] * 2)
        key = trajectory.advance((records.get(key) or {}, None))
    shutil.rmtree(whole_log)
    with WorkLogWriter(log, "foreign") as writer:
        writer.append("of other settings", {"response_ids": [1], "response": "?"})
    forked(whole(study), tmp_path)
    found = outputs(tmp_path)
    foreign = [line for line in found["log"] if b"of other settings" in line]
    assert len(foreign) == 1, "what was made under other settings stays"
    found["log"].remove(foreign[0])
    assert found == expected
