"""What the builder of a table or figure gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import pandas as pd

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.training import ControllerSettings
from stair.models.parameters import controller_parameters, lora_parameters
from stair.models.published import CONFIGS
from stair.paper.exhibits import Exhibit, analyzed_models
from stair.paper.labels import Labels
from stair.paper.replay_numbers import ReplayNumbers
from stair.paper.scored_rows import read_rows
from stair.records.manifest import manifest_path, recorded_fact
from stair.records.schemas import EVALUATION_SESSIONS
from stair.records.tables import read_table
from stair.statistics.context_sizes import context_sizes
from stair.statistics.grid import Gap, Responses
from stair.statistics.values import Value


@dataclass(frozen=True)
class Source:
    """The row of a table or figure, the run, and the scored rows that it shows."""

    exhibit: Exhibit
    config: Config
    paths: RunPaths
    labels: Labels
    """The run's labels; for a figure as matplotlib draws them."""
    responses: Responses = field(default_factory=lambda: Responses({}, 0, {}))
    """The grids of the places that are shown."""
    rows: pd.DataFrame = field(default_factory=pd.DataFrame)
    """The rows of these places, for numbers that no grid has."""

    @classmethod
    def of_run(cls, exhibit: Exhibit, config: Config, paths: RunPaths) -> Source:
        """What a run has for a table or figure: scored rows as grids over the problems of their benchmarks.

        Raises:
            ValueError: the protocol's checks have not passed on this data.
        """
        places, study = exhibit.places(config), exhibit.study
        labels = Labels.of(config, study)
        if exhibit.kind == "figure":
            labels = labels.drawn()
        if exhibit.rows is None:
            return cls(exhibit, config, paths, labels)
        if places and not paths.checks.is_file():
            raise ValueError(
                f"{paths.checks} does not exist: the protocol's checks have not passed; run: stair check --run {paths.folder}"
            )
        # Every problem opens one session of the schedule.
        problems = {
            benchmark: {row["problem_id"] for row in read_table(file, EVALUATION_SESSIONS, ["problem_id"])}
            for benchmark in dict.fromkeys(place.benchmark for place in places)
            if (file := paths.evaluation_sessions(benchmark))
        }
        responses, rows = read_rows([paths.scored(*place.of(study)) for place in places], config, problems, study)
        return cls(exhibit, config, paths, labels, responses, rows)

    @cached_property
    def sizes(self) -> tuple[Value, ...]:
        """Tokens that turns are given to read."""
        return tuple(context_sizes(self.rows)) if len(self.rows) else ()

    @cached_property
    def replay(self) -> ReplayNumbers:
        """The statistics that a figure of a replay shows: those of the first analyzed model."""
        files = self.exhibit.files(self.config, self.paths)["replay"]
        return ReplayNumbers.of_files(self.config, analyzed_models(self.config)[0], files)

    @cached_property
    def trained(self) -> Mapping[tuple[str, str], int | Gap]:
        """The parameters that each (model, condition) trained, from the controllers' manifests.

        Without a manifest, they follow from the shape of the paper's models. The count of a model that is not from the hub is
        a gap then: it may have the key of a model of the paper, but not its shape.
        """
        counts: dict[tuple[str, str], int | Gap] = {}
        for condition, settings in self.config.conditions.items():
            if settings.controller is None:
                continue
            for model, backbone in self.config.models.items():
                path = manifest_path(self.paths.controller(model, settings.controller))
                if path.is_file():
                    counts[model, condition] = int(recorded_fact(path, "parameters"))
                elif backbone.repository is None or model not in CONFIGS:
                    counts[model, condition] = Gap(
                        f"{model}, {condition}: the controller has no manifest with its parameters"
                    )
                else:
                    counts[model, condition] = _parameters(self.config.controllers[settings.controller], model)
        return counts


def _parameters(controller: ControllerSettings, model: str) -> int | Gap:
    """Parameters of a controller of one of the paper's models."""
    shape = CONFIGS[model]
    normals = controller_parameters(shape, controller.controlled_layers)
    if controller.adapter is None:
        return normals
    if shape["model_type"] != "qwen3":
        return Gap(f"{model}: the paper trains LoRA on Qwen3 only, so the run's controllers must give the count")
    return normals + lora_parameters(shape, controller.adapter.rank)
