"""The parts of one model's replay: backbone, prompts, design, shapes and files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.replay import Replay
from stair.config.replay_analysis import ReplayAnalysis
from stair.models.architecture import Architecture
from stair.records.keys import PROTOCOL_VERSION, digest_of, ids_digest
from stair.records.tensor_files import TensorFiles
from stair.sessions.backbone import Backbone
from stair.stages.replay.batch_files import Shapes, SharedHistory, Unit, shared_histories
from stair.stages.replay.design.crossed import Design
from stair.stages.replay.design.design_tables import read_design
from stair.stages.replay.measurement.layers import check_attention_layer, check_measured_layers
from stair.stages.replay.prompts import Prompts, SourceTokens


@dataclass(frozen=True)
class Work:
    """One history with its batches: the sources by depth, and the key of every batch."""

    shared: SharedHistory
    sources: list[SourceTokens]
    keys: dict[Unit, str]


class ReplayStudy:
    """One model's replay, without its weights. When `generating`, preflight must have checked the benchmark's prompts.

    Raises:
        ValueError: the model, the benchmark or the saved responses cannot be read, or preflight has not checked them.
    """

    def __init__(self, config: Config, paths: RunPaths, model: str, *, generating: bool = False) -> None:
        assert config.replay is not None, "the graph has no replay of a run without one"
        self.config, self.paths, self.model = config, paths, model
        self.settings: Replay = config.replay
        self.backbone = Backbone.open(config, paths, model, generating=self.settings.benchmark if generating else None)
        self.prompts = Prompts(config, paths, model, self.backbone.renderer)
        try:
            check_measured_layers(self.backbone.architecture, self.settings.layers)
        except ValueError as error:
            raise ValueError(f"replay.layers: {error}") from None
        if self.settings.analysis is not None:
            check_reported_layer(self.backbone.architecture, self.settings.analysis)
        self.shapes = Shapes.of_model(self.backbone.architecture, self.settings.layers, self.settings.depth)
        self.work_folder = paths.work("replay", model)
        # A file has the same name in every run, because the design is a function of names.
        others = {run: other.replay_states(model) for run, other in paths.reused(config).items()}
        self.files = TensorFiles(paths.replay_states(model), others)

    def require_space(self, units: Sequence[Unit], what: str) -> None:
        """Raises ValueError if the disk has no room for these batches. Files that exist are kept or replaced."""
        paths = [self.files.path(unit.name) for unit in units]
        present = sum(path.stat().st_size for path in paths if path.is_file())
        self.files.require_space(max(0, self.shapes.nbytes(units) - present), what)

    @cached_property
    def design(self) -> Design:
        """The design as it was sealed."""
        tables = self.paths.replay_histories(self.model), self.paths.replay_problems(self.model)
        return read_design(*tables, self.settings.batch_problems)

    @cached_property
    def columns(self) -> int:
        """Tokens of the longest current turn: the width of every batch, which so depends on the design alone."""
        return max(len(self.prompts.turn(problem).ids) for problem in self.design.references())

    def histories(self) -> list[SharedHistory]:
        """All work, in the order of the design."""
        return list(shared_histories(self.design))

    def work(self, shared: SharedHistory) -> Work:
        """A history's sources and keys.

        Raises ValueError if a saved turn is absent, or a later turn's saved prompt does not begin with these sources.
        """
        history = shared.history
        sources = [self.prompts.empty] if history is None else self.prompts.sources(history)
        common = self._common | {"sources": [[ids_digest(source.ids), *_ends(source)] for source in sources]}
        return Work(shared, sources, {unit: digest_of(common | self._of(unit)) for unit in shared.units})

    @cached_property
    def _common(self) -> dict[str, Any]:
        """What decides every measurement: model, engine, layers, shape; never a device, a shard or a run's name."""
        return {
            "measurement": "replay",
            "protocol_version": PROTOCOL_VERSION,
            "model": self.backbone.revision,
            "engine": self.backbone.engine.as_key(),
            "layers": self.settings.layers,
            "shape": [self.settings.batch_problems, self.columns],
        }

    def _of(self, unit: Unit) -> dict[str, Any]:
        turns = [self.prompts.turn(problem) for problem in unit.batch.problems]
        return {"turns": [[ids_digest(turn.ids), *turn.body] for turn in turns], "reads": unit.with_reads}


def check_reported_layer(architecture: Architecture, analysis: ReplayAnalysis) -> None:
    """Raises ValueError, with the key, unless the model has the layer whose numbers the text gives as a full-attention layer."""
    try:
        check_attention_layer(architecture, analysis.reported_layer)
    except ValueError as error:
        raise ValueError(f"replay.analysis.reported_layer: {error}") from None


def _ends(source: SourceTokens) -> list[int]:
    """Where a source's category changes: each start, and the category from there on, in turn."""
    changes = []
    for place, category in enumerate(source.categories):
        if place == 0 or category != source.categories[place - 1]:
            changes += [place, category]
    return changes
