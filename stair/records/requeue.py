"""A job that Slurm's time limit stops puts itself back into the queue, however often, while it makes progress.

The scheduler keeps the job's id, so the driver waits for it as before and counts no failure; the driver may even be gone.
"""

from __future__ import annotations

import os
import sys

from stair.records.interruption import time_limit_nears
from stair.records.progress import finished_units
from stair.records.slurm_commands import SlurmError, slurm_output

JOB = "SLURM_JOB_ID"


def requeue_own_job() -> None:
    """Requeues this Slurm job if its time limit stopped it after progress; Slurm then ends this process.

    A job without progress fails instead, so that the workflow's count of retries ends it.
    """
    job = os.environ.get(JOB)
    if job is None or not time_limit_nears() or not finished_units():
        return
    print(
        f"stair: Slurm job {job} goes back into the queue, to resume from its finished work",
        file=sys.stderr,
        flush=True,
    )
    try:
        slurm_output("scontrol", "requeue", job, seconds=60.0)
    except SlurmError as error:
        print(f"stair: it cannot: {' '.join(str(error).split())}; the workflow submits it again", file=sys.stderr)
