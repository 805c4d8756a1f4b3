"""The claim of a run's driver, when the driver was killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from stair.config.paths import RunPaths
from stair.jobs.claims import living
from stair.workflow.driver_claim import DRIVER, forget_killed_driver

CLAIM_AND_WAIT = """
import sys
from pathlib import Path
from stair.config.paths import RunPaths
from stair.workflow.driver_claim import claim_run
claim_run(RunPaths(Path(sys.argv[1])))
print("claimed", flush=True)
sys.stdin.read()
"""


def test_only_a_dead_drivers_claim_is_taken_away(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "run")
    claim = paths.work() / f".{DRIVER}.claim"
    forget_killed_driver(paths)  # nothing there: nothing to do
    driver = subprocess.Popen(
        [sys.executable, "-c", CLAIM_AND_WAIT, str(paths.folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert driver.stdout is not None and driver.stdout.readline() == "claimed\n"
        forget_killed_driver(paths)
        claimant = living(claim)
        assert claimant is not None and claimant.process == driver.pid
    finally:
        driver.kill()
        driver.communicate()
    assert claim.is_file()
    forget_killed_driver(paths)
    assert not claim.exists()
    assert not list(paths.work().iterdir()), "and nothing is left beside it"
