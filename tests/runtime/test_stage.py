"""The stage as a command: killed by SIGKILL in the middle, resumed, and written again without a model."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest

from stair.config.paths import RunPaths
from stair.config.resolve import dump, resolve
from tests.by_hand import by_hand

ROOT = Path(__file__).parents[2]
MODEL = "qwen3.5-4b"


def shapes(folder: Path, **changes: int) -> RunPaths:
    """The shapes run of one model, at sizes that take seconds: two histories with banks of 312 entries."""
    runtime = {
        "models": [MODEL], "histories": 2, "tokens": 128, "prefixes": [2048, 8192], **changes,
        "synthetic": {"entries": 10_000, "prompt_tokens": 1024, "question_tokens": 256},
    }  # fmt: skip
    config = resolve(
        ROOT, {"run": "shapes", "results": str(folder), "runtime": runtime, "transformers": {"device": "cpu"}}
    )
    found = RunPaths.of(config)
    found.folder.mkdir(parents=True, exist_ok=True)
    found.resolved.write_text(dump(config), encoding="utf-8")
    return found


@pytest.mark.timeout(300)
def test_a_killed_study_resumes_behind_the_finished_histories(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = shapes(tmp_path)
    work, command = paths.work("runtime", MODEL), ["measure-runtime", "--run", str(paths.folder), "--model", MODEL]
    process = subprocess.Popen(
        [str(Path(sys.executable).parent / "stair"), *command], cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    end = time.monotonic() + 120
    while not [*work.glob("*.csv")]:
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < end
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    (kept,) = work.glob("*.csv")
    before = kept.read_text(encoding="utf-8")
    assert set(pd.read_csv(kept)["history"]) == {"random-1"}
    assert not paths.runtime(MODEL).exists()

    by_hand(*command)
    assert "2 histories" in capsys.readouterr().out
    content = paths.runtime(MODEL).read_text(encoding="utf-8")
    assert content.startswith(before), "what was measured is not measured again"
    rows = pd.read_csv(paths.runtime(MODEL))
    assert Counter(rows["row"]) == dict.fromkeys(["construction", "native", "prefix-64", "prefix-256", "full"], 4)
    assert all(rows["shape"].str.startswith("random weights, reduced shape"))
    reading = rows[rows["entries"] > 0]
    assert set(reading["tokens"]) == {4} and (reading["readout_norm"] > 0).all()

    # What is finished is written again, and nothing is measured.
    paths.runtime(MODEL).unlink()
    by_hand(*command)
    assert paths.runtime(MODEL).read_text(encoding="utf-8") == content

    # Under other settings, everything is measured again.
    paths = shapes(tmp_path, repetitions=1)
    by_hand(*command)
    assert len(pd.read_csv(paths.runtime(MODEL))) == len(rows) / 2
