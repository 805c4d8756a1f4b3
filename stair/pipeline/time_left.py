"""The time that a run still takes: the plan's estimate (`stair.pipeline.plan`), corrected by the pace of its jobs."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from stair.config.model import Config
from stair.config.paths import RUN, RunPaths
from stair.pipeline.jobs import JOBS, names_of
from stair.records.gpus import visible_gpus
from stair.records.progress import ProgressFile, read_progress

if TYPE_CHECKING:
    from stair.pipeline.plan import Work

_CPU_SECONDS = 3.0
"""A job without a model, which the plan leaves out."""
_PLACES_SHARE, _PACE_SHARE = 0.1, 0.5
"""The plan weighs as much as what this share of the run measures: how many jobs run at a time, and the pace of stages that have
not begun."""


class Running(NamedTuple):
    """A job that runs, or waits in a cluster's queue."""

    rule: str
    planned: float
    """Seconds."""
    seconds: float
    """Since its start."""
    progress: ProgressFile | None

    @property
    def fresh(self) -> float:
        """The share of its work that it has done since its start: all, of a job that reports no progress and has ended."""
        return self.progress.fresh / self.progress.total if self.progress and self.progress.total else 1.0


class Started(NamedTuple):
    """A job of this start."""

    rule: str
    name: str
    planned: float
    began: float

    def now(self) -> Running:
        """Its state, with the progress that it has reported since its start."""
        progress = read_progress(RunPaths(Path(os.environ[RUN])).progress_of(self.name), since=self.began - 1)
        return Running(self.rule, self.planned, time.time() - self.began, progress)


class TimeLeft:
    """The seconds of the jobs of one start: planned and measured ones.

    Args:
        counts: the jobs to do, by rule.
        works: the plan's.
        places: jobs with a model that run at a time; None: a cluster decides.
    """

    def __init__(self, counts: Mapping[str, int], works: Sequence[Work], places: float | None) -> None:
        self._works, self._places = [work for work in works if work.jobs], places
        self._waiting = defaultdict[str, float](float)
        self._planned, self._took = defaultdict[str, float](float), defaultdict[str, float](float)
        for rule, count in counts.items():
            self._waiting[_kind(rule)] += count * self._mean(_kind(rule))
        self._all, self._done = sum(self._waiting.values()), 0.0

    @classmethod
    def of_run(cls, counts: Mapping[str, int], config: Config, paths: RunPaths) -> TimeLeft:
        from stair.pipeline.plan import Machine, Planner, wall_hours

        works, machine = Planner(config, paths).works(), Machine.here()
        wall, _ = wall_hours(works, machine)
        if any(work.gpus for work in works) and not visible_gpus():
            places = None
        else:
            places = sum(work.job_hours * work.jobs for work in works) / wall if wall else float(machine.cores)
        return cls(counts, works, places)

    def start(self, rule: str, wildcards: Mapping[str, str]) -> float:
        """Counts a job that starts; returns its planned seconds."""
        kind, names = _kind(rule), names_of(rule, wildcards) if rule in JOBS else {}
        planned = self._mean(kind, names.get("model"), names.get("controller") or names.get("condition", ""))
        self._waiting[kind] = max(0.0, self._waiting[kind] - planned)
        return planned

    def finish(self, job: Running) -> None:
        self._done += job.planned
        self._planned[_kind(job.rule)] += job.planned * job.fresh
        self._took[_kind(job.rule)] += job.seconds

    def _mean(self, kind: str, model: str | None = None, name: str | None = None) -> float:
        """The planned seconds of a job; where the plan does not have this one, of a job of its kind."""
        works = [work for work in self._works if work.stage == kind]
        works = [work for work in works if (work.model, work.name) == (model, name)] or works
        jobs = sum(work.jobs for work in works)
        return 3600 * sum(work.job_hours * work.jobs for work in works) / jobs if jobs else _CPU_SECONDS

    def share(self, running: Sequence[Running]) -> float:
        """The share of the planned work that is done."""
        parts = sum(job.planned * job.progress.done / max(1, job.progress.total) for job in running if job.progress)
        return min(1.0, (self._done + parts) / self._all) if self._all else 1.0

    def seconds(self, running: Sequence[Running], elapsed: float) -> float | None:
        """The estimate after `elapsed` seconds; None where nothing is known yet."""
        planned, took = dict(self._planned), dict(self._took)
        for job in running:  # a job without progress counts when it ends
            if job.progress and job.progress.fresh:
                kind = _kind(job.rule)
                planned[kind] = planned.get(kind, 0.0) + job.planned * job.fresh
                took[kind] = took.get(kind, 0.0) + job.progress.seconds
        prior = _PACE_SHARE * self._all
        stages = {work.stage for work in self._works}  # downloads, which are not planned, say nothing of these
        pace = (
            (sum(took[kind] for kind in took.keys() & stages) + prior)
            / (sum(planned[kind] for kind in planned.keys() & stages) + prior)
            if prior
            else 1.0
        )

        def factor(kind: str) -> float:
            one = self._mean(kind)
            return (took.get(kind, 0.0) + pace * one) / (planned.get(kind, 0.0) + one)

        left = [
            job.progress.seconds_left
            if job.progress and job.progress.seconds_left is not None
            else max(0.0, job.planned * factor(_kind(job.rule)) - job.seconds)
            for job in running
        ]
        rest = sum(left) + sum(seconds * factor(kind) for kind, seconds in self._waiting.items() if seconds)
        busy = sum(self._took.values())
        busy += sum(job.progress.seconds if job.progress else 0.0 for job in running)
        busy += sum(job.seconds for job in running if not (job.rule in JOBS and JOBS[job.rule].progress))
        prior = _PLACES_SHARE * self._all
        if self._places is None:
            at_a_time = busy / elapsed if elapsed else 0.0
        else:
            at_a_time = (busy + prior) / (elapsed + prior / self._places)
        return max(rest / at_a_time, *left, 1.0) if at_a_time else None


def _kind(rule: str) -> str:
    """The stage of a rule that computes with a model, as the plan has it; another rule is a kind of its own."""
    return JOBS[rule].stage if rule in JOBS and JOBS[rule].engine else rule
