"""The rules are the graph: a stage that is added as docs/extend.md says is known to every command."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.docs.extend_page import put, steps
from tests.workflow.conftest import planned, run_in, snakemake
from tests.workflow.smoke_jobs import EVERY_JOB, MODEL, lasting

pytestmark = pytest.mark.timeout(300)
FILE, RUN = f"lengths/{MODEL}.csv", ("--run", "results/smoke")


def test_a_new_stage_is_known_to_every_command(copied_run: Path, project_copy: Path) -> None:
    project = project_copy
    for step in steps("A stage"):
        put(step, project)
    (project / "stair/stages/lengths/__init__.py").touch()
    results, more = copied_run / "results" / "smoke", {"PYTHONPATH": str(project)}

    def stair(*words: str) -> subprocess.CompletedProcess[str]:
        return run_in(copied_run, "stair", *words, more=more)

    def jobs(*words: str, config: tuple[str, ...] = ()) -> set[str]:
        return planned(copied_run, *words, config=config, more=more, root=project)

    assert jobs() == {"measure_lengths", *(EVERY_JOB - lasting(EVERY_JOB))}
    snakemake(copied_run, "lengths", more=more, root=project)
    rows = (results / FILE).read_text().splitlines()
    assert [row.rpartition(",")[0].rpartition(",")[0] for row in rows[1:]] == [
        f"math500,{condition}" for condition in ("vanilla", "native", "stair")
    ]
    assert json.loads(stair("status", *RUN, "--json").stdout)["outputs"]["lengths"] == {"made": 1, "all": 1}
    assert f"responses/{MODEL}/math500/native.parquet" in stair("why", f"results/smoke/{FILE}", "--full").stdout

    # It runs again when its settings change, and when a file that it is made from does.
    assert jobs("lengths", config=("select={conditions: [vanilla, native]}",)) == {"measure_lengths"}
    native = results / f"responses/{MODEL}/math500/native.parquet"
    pq.write_table(pq.read_table(native), native, compression="gzip")
    assert jobs("lengths") == {"measure_lengths"}
