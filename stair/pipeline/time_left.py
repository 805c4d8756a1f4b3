"""The time that a run still takes: the plan's (`stair.pipeline.plan`), corrected by the pace of the jobs with a model."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from stair.config.model import Config
from stair.config.paths import RUN, RunPaths
from stair.pipeline.jobs import JOBS
from stair.records.gpus import visible_gpus
from stair.records.progress import ProgressFile, progress_file, read_progress

_OTHER_SECONDS = 0.5
"""Of a job without a model, which the plan leaves out."""
_PRIOR = 0.1
"""The plan weighs as much as what this share of the run measures."""

Running = Iterable[tuple[str, ProgressFile | None]]
"""The rules of the jobs that run, or wait in a cluster's queue, and what they have reported since their start."""


class Started(NamedTuple):
    """A job of this start."""

    rule: str
    name: str
    began: float

    def progress(self) -> ProgressFile | None:
        """What it has reported since its start."""
        folder = RunPaths(Path(os.environ[RUN])).progress
        return read_progress(progress_file(folder, self.name), since=self.began - 1)


class TimeLeft:
    """The seconds of one start, planned and measured.

    Args:
        counts: the jobs to do, by rule.
        planned: the seconds of a mean job of each stage that computes with a model.
        at_a_time: how many of these jobs run at a time; None: a cluster decides.
    """

    def __init__(self, counts: Mapping[str, int], planned: Mapping[str, float], at_a_time: float | None) -> None:
        self._planned, self._at_a_time = planned, at_a_time
        self._all = sum(count * self._seconds(rule) for rule, count in counts.items())
        self._done = self._fresh = 0.0
        self._began: float | None = None

    @classmethod
    def of_run(cls, counts: Mapping[str, int], config: Config, paths: RunPaths) -> TimeLeft:
        from stair.pipeline.plan import Machine, Planner, wall_hours

        works, machine = Planner(config, paths).works(), Machine.here()
        hours, jobs = defaultdict[str, float](float), defaultdict[str, int](int)
        for work in works:
            hours[work.stage] += work.job_hours * work.jobs
            jobs[work.stage] += work.jobs
        planned = {stage: 3600 * hours[stage] / jobs[stage] for stage in hours}
        wall, _ = wall_hours(works, machine)
        on_cluster = any(work.gpus for work in works) and not visible_gpus()
        return cls(counts, planned, None if on_cluster else sum(hours.values()) / wall if wall else machine.cores)

    def _seconds(self, rule: str) -> float:
        """The planned seconds of a job; none of a download."""
        if rule not in JOBS:
            return 0.0
        return self._planned.get(JOBS[rule].stage, 0.0) if JOBS[rule].engine else _OTHER_SECONDS

    def start(self, rule: str, now: float) -> None:
        """Starts the clock with the first job that has a model."""
        if self._began is None and rule in JOBS and JOBS[rule].engine:
            self._began = now

    def finish(self, rule: str, progress: ProgressFile | None) -> None:
        self._done += self._seconds(rule)
        if progress and progress.total:
            self._fresh += self._seconds(rule) * progress.fresh / progress.total

    def share(self, running: Running) -> float:
        """The share of the planned work that is done."""
        return self._sums(running)[0] / self._all if self._all else 0.0

    def _sums(self, running: Running) -> tuple[float, float]:
        """The planned seconds that are done, and of these what jobs have reported since their start."""
        done, fresh = self._done, self._fresh
        for rule, progress in running:
            if progress and progress.total:
                done += self._seconds(rule) * progress.done / progress.total
                fresh += self._seconds(rule) * progress.fresh / progress.total
        return done, fresh

    def seconds(self, running: Running, now: float) -> float | None:
        """The estimate; None where nothing is known yet."""
        done, fresh = self._sums(running := list(running))
        elapsed = 0.0 if self._began is None else now - self._began
        if self._at_a_time is not None:
            prior = _PRIOR * self._all
            elapsed, fresh = elapsed + prior / self._at_a_time, fresh + prior
        if not fresh:
            return None
        own = (progress.seconds_left or 0.0 for _, progress in running if progress)
        return max((self._all - done) * elapsed / fresh, *own, 1.0)
