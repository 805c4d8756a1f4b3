"""The jobs that a run needs: those of its configuration, without those that a restored archive makes unneeded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stair.config.paths import RunPaths
from stair.config.replay_analysis import REPLAY_PARTS
from stair.core import SHARED_T1_STUDY
from stair.graph.origin import BEHIND, has_settings, read_origin
from stair.graph.output_kind import Outputs
from stair.graph.run import Job, Run
from stair.graph.table_inputs import BANK_COST_FIGURE, TRAINING_FIGURE, analyzed_models

# ---------------------------------------------------------------- by the configuration


def replayed_models(run: Run) -> list[Job]:
    """The models whose histories are replayed."""
    return [] if run.config.replay is None else [(model,) for model in run.config.replay.models]


def timed_models(run: Run) -> list[Job]:
    """The models of the runtime study."""
    return [] if run.config.runtime is None else [(model,) for model in run.config.runtime.models]


def drawn_costs(run: Run) -> list[Job]:
    """The figures of prefill cost against bank length."""
    if run.config.runtime is None or not run.config.runtime.curve:
        return []
    return [(BANK_COST_FIGURE + model,) for (model,) in timed_models(run)]


def drawn_curves(run: Run) -> list[Job]:
    """The figures of training curves, one for each model with a controller."""
    return [(TRAINING_FIGURE + model,) for model in run.config.models if run.paths.curves(run.config, model)]


# ---------------------------------------------------------------- with restored outputs


class NeededJobs:
    """The jobs of a run where restored outputs can make some unneeded: all that would use their outputs is restored.

    Args:
        outputs: the graph's table, whose entries take their jobs from here.
    """

    def __init__(self, outputs: Outputs) -> None:
        self._outputs = outputs

    def is_restored(self, run: Run, output: str, *name: str) -> bool:
        """Whether an archive's outputs of a job are in the run's folder and were made under the current settings.

        The settings of all jobs behind them count too, where the archive records these: their outputs may not exist.
        """
        kind = self._outputs[output]
        if not kind.restorable or run.archive is None:
            return False
        if (output, *name) not in run.restored_jobs:
            manifest = kind.pieces(run.archive, *name)[0].manifest
            restored = has_settings(manifest, lambda: kind.settings(run, *name))
            origin = read_origin(manifest) or {}
            run.restored_jobs[output, *name] = restored and self.other_job_behind(run, origin) is None
        return run.restored_jobs[output, *name]

    def other_job_behind(self, run: Run, origin: Mapping[str, Any]) -> str | None:
        """The first job behind an archived output that had other settings than now; None if there is none."""
        for job, digest in origin.get(BEHIND, ()):
            if self._settings_digest(run, *job) != digest:
                return " ".join(job)
        return None

    def _settings_digest(self, run: Run, output: str, *name: str) -> str | None:
        job = (output, *name)
        if job not in run.digests:
            try:
                run.digests[job] = self._outputs[output].settings_digest(run, *name)
            except (KeyError, TypeError, AssertionError):
                run.digests[job] = None
        return run.digests[job]

    def _uses_restored(self, run: Run, output: str, *name: str) -> bool:
        """As `is_restored`, but False in the graph that includes unneeded jobs, where nothing is left out."""
        return not run.include_unneeded and self.is_restored(run, output, *name)

    # ------------------------------------------------------------ models and training data

    def needs_training_data(self, run: Run, model: str) -> bool:
        """Whether a model's rollouts and sessions are made.

        They are not if all its trained controllers are restored and neither the archive nor the run has their training data.
        """
        if run.include_unneeded:
            return True
        controllers = [key for key in run.config.controllers if model in run.config.trained(key)]
        if not controllers or not all(self.is_restored(run, "controller", model, key) for key in controllers):
            return True
        return self.is_restored(run, "rollouts", model) or run.paths.rollouts(model).is_file()

    def trained_models(self, run: Run) -> list[str]:
        """The models whose training data is made."""
        return [model for model in run.config.models if self.needs_training_data(run, model)]

    def checked_models(self, run: Run) -> list[str]:
        """The models whose training data the checks read; the checks of an archive have read that of all models."""
        return list(run.config.models) if self._uses_restored(run, "check") else self.trained_models(run)

    def used_models(self, run: Run) -> list[str]:
        """The models that jobs use. A model is left out if all its outputs are restored."""

        def used(model: str) -> bool:
            names = ("rollouts", "controller", "responses", SHARED_T1_STUDY, "replay_design", "replay", "runtime")
            jobs = [(name, job) for name in names for job in self._outputs[name].jobs(run) if job[0] == model]
            return any(not self.is_restored(run, name, *job) for name, job in jobs)

        return [model for model in run.config.models if run.include_unneeded or used(model)]

    def checked_prompts(self, run: Run) -> list[Job]:
        """Every (model, data set) whose prompts are held to the model's context."""
        return [
            (model, name)
            for model in self.used_models(run)
            for name in (
                *(["training_pool"] if self.needs_training_data(run, model) else []),
                *dict.fromkeys((*run.config.benchmarks_of(model), *run.config.shared_t1().benchmarks_of(model))),
            )
        ]

    # ------------------------------------------------------------ data sets

    def benchmarks(self, run: Run) -> list[Job]:
        """The benchmarks whose tables are made. A benchmark is left out if only restored outputs were made from it."""
        if run.include_unneeded or run.archive is None:
            return [(key,) for key in run.config.benchmarks]
        users = [
            (output, job)
            for output in self._outputs.values()
            if output.restorable and output.name != "benchmark"
            for job in output.jobs(run)
            if not self.is_restored(run, output.name, *job)
        ]
        used = {file for output, job in users for group in output.made_from(run, *job).values() for file in group}
        return [
            (key,)
            for key in run.config.benchmarks
            if (file := run.paths.benchmark(key)) in used or file.is_file() or self.is_restored(run, "benchmark", key)
        ]

    def training_pools(self, run: Run) -> list[Job]:
        """The models whose training problems are made or restored."""
        return [
            (model,)
            for model in run.config.models
            if self.needs_training_data(run, model) or self._uses_restored(run, "training_pool", model)
        ]

    def generated_sets(self, run: Run) -> list[Job]:
        """The data sets that the run generates. A data set is left out if its table is restored from an archive."""
        config = run.config
        benchmarks = [
            key
            for (key,) in self.benchmarks(run)
            if config.benchmarks[key].tiny is not None and not self._uses_restored(run, "benchmark", key)
        ]
        made = any(not self._uses_restored(run, "training_pool", model) for (model,) in self.training_pools(run))
        pool = ["training_pool"] if config.training_pool.tiny is not None and made else []
        return [(name,) for name in (*pool, *benchmarks)]

    def has_all_data(self, run: Run) -> bool:
        """Whether every data set that the data report describes is made."""
        models, benchmarks = run.config.models, run.config.benchmarks
        return len(self.trained_models(run)) == len(models) and len(self.benchmarks(run)) == len(benchmarks)

    # ------------------------------------------------------------ responses and states

    def answered(self, run: Run) -> list[Job]:
        """Every job of the evaluation, without those of which an archive has the scored rows alone."""
        return [job for job in run.evaluated if not self._scores_alone(run, run.paths, "responses", "scores", job)]

    def answered_shared_t1(self, run: Run) -> list[Job]:
        """As `answered`, for the study with a shared T1 history."""
        study, outputs = run.shared_t1, (SHARED_T1_STUDY, "shared_t1_scores")
        return [job for job in study.evaluated if not self._scores_alone(run, study.paths, *outputs, job)]

    def _scores_alone(self, run: Run, paths: RunPaths, responses: str, scores: str, job: Job) -> bool:
        here = self._uses_restored(run, responses, *job) or paths.responses(*job).is_file()
        return not here and self._uses_restored(run, scores, *job)

    def carded_models(self, run: Run) -> list[Job]:
        """The models that answer a benchmark and whose responses all exist, for their data cards."""
        absent = {job[0] for job in set(run.evaluated).difference(self.answered(run))}
        return [(model,) for model in run.config.models if run.config.benchmarks_of(model) and model not in absent]

    def measured_models(self, run: Run) -> list[Job]:
        """The replayed models whose states are measured. A model is left out if its design and statistics are restored."""

        def restored(model: str) -> bool:
            jobs = [("replay_design", model), *(("replay_statistics", model, part) for part in REPLAY_PARTS)]
            return model in analyzed_models(run.config) and all(self._uses_restored(run, *job) for job in jobs)

        return [(model,) for (model,) in replayed_models(run) if not restored(model)]
