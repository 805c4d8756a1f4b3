"""Inputs of rules where the set of files depends on the configuration.

All other inputs are written out in the rules. A method takes Snakemake's wildcards and is used as an input function; one
that returns groups by name is used with `unpack`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from stair.config.model import Config
from stair.config.paths import RunPaths, input_name
from stair.core import EVALUATION, SECTIONS, SHARED_T1, Place, condition_key
from stair.models.model_folder import revision_files
from stair.paper.exhibits import Groups, Kind, evaluated_places, exhibits, named, reported_values
from stair.pipeline.jobs import stage_files, stages_of
from stair.records.manifest import manifest_path


class RuleInputs:
    """Input functions of a run."""

    def __init__(self, config: Config, paths: RunPaths) -> None:
        self.config, self.paths = config, paths

    # ------------------------------------------------------------ models and data sets

    def weights(self, wildcards: Any) -> list[Path]:
        """The files of a model: of its folder, or the mark of its download."""
        model = wildcards.model
        settings, folder = self.config.models[model], self.paths.model_folder(self.config, model)
        if settings.path is not None:
            files = revision_files(folder) if folder.is_dir() else [folder / "config.json"]
            return [*map(input_name, files)]
        return [input_name(self.paths.model_mark(self.config, model))]

    def dataset(self, name: str) -> Path:
        """The file of a data set, or the mark of its download."""
        sets = {"training_pool": self.config.training_pool, **self.config.benchmarks}
        if sets[name].repository:
            return input_name(self.paths.fetched_mark(self.config, name))
        file = self.paths.dataset_file(self.config, name)
        return file if sets[name].path is None else input_name(file)

    def benchmark_source(self, wildcards: Any) -> Path:
        return self.dataset(wildcards.benchmark)

    def excluded_benchmarks(self, wildcards: Any) -> list[Path]:
        return [self.paths.benchmark(key) for key in sorted(self.config.training_pool.excluded_for(wildcards.model))]

    # ------------------------------------------------------------ responses

    def first_turns(self, wildcards: Any) -> list[Path]:
        """The responses that a condition takes its T1 from; none where it generates its own."""
        first = self.config.first_turn(wildcards.condition)
        return [self.paths.responses(wildcards.model, wildcards.benchmark, first)] if first else []

    def answers(self, wildcards: Any) -> Path:
        """The responses of a condition that is named apart from its study."""
        condition = condition_key(wildcards.study, wildcards.condition)
        return self.paths.responses(wildcards.model, wildcards.benchmark, condition)

    def study(self, study: str) -> list[Path]:
        """The responses of all conditions of a study."""
        return [self.paths.responses(*place.of(study)) for place in evaluated_places(self.config, study)]

    def training(self, wildcards: Any) -> Groups:
        """What a controller is trained on, or a published one (the key `path`)."""
        paths, model = self.paths, wildcards.model
        preflight = [paths.preflight(model)]
        if (folder := paths.published(self.config, model, wildcards.controller)) is not None:
            names = (*self.config.controllers[wildcards.controller].files, manifest_path(folder).name)
            return {"published": [input_name(folder / name) for name in names], "preflight": preflight}
        return {
            "pool": [paths.training_pool(model)],
            "rollouts": [paths.rollouts(model)],
            "training": [paths.training_sessions(model)],
            "validation": [paths.validation_sessions(model)],
            "preflight": preflight,
        }

    def controller(self, wildcards: Any) -> list[Path]:
        """The weights of a condition's controller; none where it has none."""
        controller = self.config.condition(wildcards.condition).controller
        return self.paths.controller_weights(self.config, wildcards.model, controller) if controller else []

    def rollout_shards(self, wildcards: Any) -> list[Path]:
        return self._shards(self.config.rollouts.shards, "rollouts", wildcards.model)

    def shards(self, wildcards: Any) -> list[Path]:
        place = (wildcards.model, wildcards.benchmark, wildcards.condition)
        return self._shards(self.config.shards_of(wildcards.condition), "evaluation", *place)

    def replay_shards(self, wildcards: Any) -> list[Path]:
        assert self.config.replay is not None
        return self._shards(self.config.replay.shards, "replay", wildcards.model)

    def _shards(self, count: int, *work: str) -> list[Path]:
        return [self.paths.shard(str(number), str(count), *work) for number in range(count)]

    def responses(self, wildcards: Any) -> list[Path]:
        """All of a model, for a stage of one's own (docs/extend.md)."""
        return [
            self.paths.responses(*place) for place in evaluated_places(self.config) if place.model == wildcards.model
        ]

    def runtime(self, wildcards: Any) -> Groups:
        """What the runtime study reads: saved histories and a controller, or nothing with random weights."""
        study, paths = self.config.runtime, self.paths
        assert study is not None
        if study.synthetic is not None:
            return {}
        return {
            "benchmark": [paths.benchmark(study.benchmark)],
            "sessions": [paths.evaluation_sessions(study.benchmark)],
            "responses": [paths.responses(wildcards.model, study.benchmark, study.condition)],
            "controller": paths.controller_weights(self.config, wildcards.model, study.controller),
            "model": [paths.preflight(wildcards.model)],
        }

    # ------------------------------------------------------------ checks, tables and figures

    def check(self, wildcards: Any) -> Groups:
        """Everything that the protocol's checks read."""
        config, paths = self.config, self.paths
        return {
            "benchmarks": [paths.benchmark(key) for key in config.benchmarks],
            "pool": [paths.training_pool(model) for model in config.models],
            "rollouts": [paths.rollouts(model) for model in config.models],
            "training": [paths.training_sessions(model) for model in config.models],
            "validation": [paths.validation_sessions(model) for model in config.models],
            "sessions": [paths.evaluation_sessions(key) for key in config.benchmarks],
            "responses": [file for study in SECTIONS for file in self.study(study)],
        }

    def table(self, wildcards: Any) -> Groups:
        return self._exhibit("table", wildcards.table)

    def figure(self, wildcards: Any) -> Groups:
        return self._exhibit("figure", wildcards.figure)

    def _exhibit(self, kind: Kind, name: str) -> Groups:
        """What a table or figure shows. One without rows waits for no check of responses."""
        exhibit = named(self.config, kind, name)
        rows = {} if exhibit.rows is None else self.shown(exhibit.places(self.config), exhibit.study)
        return rows | exhibit.files(self.config, self.paths)

    def reported(self, wildcards: Any) -> Groups:
        """Every number that tables and figures report, and the scored rows behind the sampled ones."""
        shared = evaluated_places(self.config, SHARED_T1)
        return {
            "values": reported_values(self.config, self.paths),
            **self.shown(evaluated_places(self.config)),
            "shared_t1": [self.paths.scored(*place.of(SHARED_T1)) for place in shared],
        }

    def report(self, wildcards: Any) -> Groups:
        """What the report page shows: every table and figure, the comparison, the claims, and the facts of the run."""
        every = exhibits(self.config)
        summaries = [] if self.config.only_measures else [self.paths.comparison(), self.paths.claims()]
        return {
            "tables": [each.file(self.paths, ".html") for each in every if each.kind == "table"],
            "figures": [each.file(self.paths, ".png") for each in every if each.kind == "figure"],
            "summaries": [*summaries, self.paths.provenance],
        }

    def results(self, wildcards: Any) -> list[Path]:
        """The outputs of all stages before the provenance: it lists every one."""
        listed = [stage for stage in stages_of(self.config) if stage not in ("provenance", "report")]
        return [file for stage in listed for file in self.target(stage)]

    def shown(self, places: Iterable[Place], study: str = EVALUATION) -> Groups:
        places = list(places)
        benchmarks = [key for key in self.config.benchmarks if key in {place.benchmark for place in places}]
        return {
            "sessions": [self.paths.evaluation_sessions(key) for key in benchmarks],
            "rows": [self.paths.scored(*place.of(study)) for place in places],
            "checks": [self.paths.checks],
        }

    def target(self, stage: str) -> list[Path]:
        """The files of a target; those of `all` are the files of every stage.

        Snakemake makes a deleted intermediate output again only if it is a target. Its dependents follow.
        """
        stages = stages_of(self.config) if stage == "all" else [stage]
        return [file for each in stages for file in stage_files(self.config, self.paths, each)]
