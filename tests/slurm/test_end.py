"""A cluster's processes end with the process that has started them. Needs no Slurm."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.programs import needs

STARTER = """
import sys, time
from pathlib import Path
from tests.slurm.cluster import Cluster

cluster = Cluster(Path(sys.argv[1]))
cluster.open_namespace("true")
cluster._launch("job", *cluster.inside("setsid", "runuser", "-u", "nobody", "--", "sleep", "321"))
while not any(b"321" in (member / "cmdline").read_bytes() for member in cluster.members() if member.exists()):
    time.sleep(0.05)
print(*(member.name for member in cluster.members()), flush=True)
time.sleep(60)
"""


@needs("unshare", "slurm")
@pytest.mark.skipif(os.getuid() != 0, reason="a mount namespace needs root")
def test_a_killed_starter_leaves_no_process(tmp_path: Path) -> None:
    """Not even one in a session of its own and of another user, as munge's daemon."""
    if subprocess.run(["unshare", "--mount", "true"], check=False).returncode:
        pytest.skip("no mount namespace can be made here")
    starter = subprocess.Popen([sys.executable, "-c", STARTER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    members = [Path("/proc", number) for number in starter.stdout.readline().split()]
    assert len(members) >= 2 and all(member.exists() for member in members)
    starter.send_signal(signal.SIGKILL)
    starter.wait()
    deadline = time.monotonic() + 20
    while any(map(_lives, members)):
        assert time.monotonic() < deadline, [member for member in members if _lives(member)]
        time.sleep(0.1)


def _lives(process: Path) -> bool:
    """Whether a process runs: in a container, nobody may collect a dead one."""
    try:
        return ") Z " not in (process / "stat").read_text()
    except OSError:
        return False
