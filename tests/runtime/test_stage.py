"""The stage as a command: killed by SIGKILL in the middle, resumed, and written again without a model."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from stair.config.paths import RunPaths
from stair.config.resolve import dump, resolve
from stair.records.worklog import WorkLog
from stair.stages.runtime import stage
from stair.stages.runtime.measure import Measurer
from stair.stages.runtime.repetitions import read_lines, write_lines
from stair.stages.runtime.study import Study
from stair.stages.runtime.study_units import resolved_sizes
from tests.by_hand import by_hand
from tests.runtime.runtime_cases import METHOD, history

ROOT = Path(__file__).parents[2]
MODEL = "qwen3.5-4b"
UNITS = 2 * (1 + 1 + 4) + 1 + 1 + 2
"""Two histories with construction, native, three prefixes and full; the curve with its native point; two turns."""


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    """The shapes run of one model, at sizes that take seconds."""
    changes = {
        "models": [MODEL], "variants": ["fast-serial"], "curve": [4096], "growth": {"turns": 2, "entries": 4096},
        "synthetic": {"on_cpu": {"divisor": 256, "histories": 2, "tokens": 4}},
    }  # fmt: skip
    config = resolve(
        ROOT, {"run": "shapes", "results": str(tmp_path), "runtime": changes, "transformers": {"device": "cpu"}}
    )
    found = RunPaths.of(config)
    found.folder.mkdir(parents=True)
    found.resolved.write_text(dump(config), encoding="utf-8")
    return found


def started(paths: RunPaths) -> subprocess.Popen[str]:
    command = [
        str(Path(sys.executable).parent / "stair"),
        "measure-runtime",
        "--run",
        str(paths.folder),
        "--model",
        MODEL,
    ]
    return subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True,
    )  # fmt: skip


@pytest.mark.timeout(300)
def test_a_killed_study_resumes_at_the_open_measurement(paths: RunPaths, capsys: pytest.CaptureFixture[str]) -> None:
    folder = paths.work("runtime", MODEL)
    process = started(paths)
    end = time.monotonic() + 120
    while sum(path.read_bytes().count(b"\n") for path in folder.glob("*.log")) < 4:
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < end
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = WorkLog(folder)
    kept = {key: before.get(key) for key in before.keys()}  # noqa: SIM118
    assert 4 <= len(kept) < UNITS
    assert not paths.runtime(MODEL).exists()

    by_hand("measure-runtime", "--run", str(paths.folder), "--model", MODEL)
    assert f"{UNITS} measurements" in capsys.readouterr().out
    after = WorkLog(folder)
    assert len(after) == UNITS
    assert after.counts.duplicates == 0
    assert {key: after.get(key) for key in kept} == kept
    lines = read_lines(paths.runtime(MODEL))
    parts = Counter(line.part for line in lines)
    assert parts == {"construction": 4, "row": 20, "curve": 4, "growth": 4}
    assert all(line.shape.startswith("random weights, reduced shape") and not line.gap for line in lines)
    assert {line.tokens for line in lines if line.part == "row"} == {4}
    assert all((line.readout_norm or 0) > 0 and (line.controlled_tokens or 0) > 0 for line in lines if line.variant)

    # What is in the log is written again, and nothing is measured.
    content = paths.runtime(MODEL).read_bytes()
    paths.runtime(MODEL).unlink()
    by_hand("measure-runtime", "--run", str(paths.folder), "--model", MODEL)
    assert paths.runtime(MODEL).read_bytes() == content
    assert len(WorkLog(folder)) == UNITS


def test_what_memory_did_not_suffice_for_is_measured_by_the_next_run(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {
        "models": [MODEL], "variants": ["printed-serial"], "curve": [4096], "growth": None,
        "synthetic": {"on_cpu": {"divisor": 256, "histories": 1, "tokens": 4}},
    }  # fmt: skip
    config = resolve(
        ROOT,
        {"run": "shapes", "results": str(paths.folder.parent), "runtime": changes, "transformers": {"device": "cpu"}},
    )
    with monkeypatch.context() as full:
        full.setattr(Measurer, "_free_bytes", lambda measurer: 1 << 12)
        stage.run(config, paths, MODEL)
    lines = read_lines(paths.runtime(MODEL))
    assert {line.variant for line in lines if line.gap} == {"printed-serial"}
    kept = len(WorkLog(paths.work("runtime", MODEL)))
    stage.run(config, paths, MODEL)
    assert not any(line.gap for line in read_lines(paths.runtime(MODEL)))
    assert len(WorkLog(paths.work("runtime", MODEL))) == kept + sum(bool(line.gap) for line in lines)


def test_too_few_long_banks_are_one_line_with_the_count(tmp_path: Path) -> None:
    settings = resolve(ROOT, {"run": "paper"}).runtime
    assert settings is not None
    sizes = resolved_sizes(settings, [])
    engine = {"name": "transformers", "version": "1", "attention": "sdpa", "dtype": "bfloat16"}
    histories = tuple(history(name=f"s-{number}") for number in range(7))
    study = Study(
        settings, "", "math500", histories, 16, sizes, METHOD, "GPU", {"engine": engine}, load=lambda: pytest.fail("loaded")
    )  # fmt: skip
    reason = (
        "7 of the 16 histories have a bank longer than 32,768 entries; set runtime.histories or runtime.longer_than"
    )
    assert study.gap == reason
    assert study.units() == []
    write_lines(tmp_path / "m.csv", stage._lines(study, "m", {}))
    (line,) = read_lines(tmp_path / "m.csv")
    assert (line.gap, line.part, line.benchmark, line.device, line.prefill_s) == (reason, "", "math500", "GPU", None)
