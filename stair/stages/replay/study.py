"""The parts of one model's replay: backbone, prompts, design, shapes and files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.replay import Replay
from stair.models.architecture import Architecture
from stair.records.keys import PROTOCOL_VERSION, digest_of, ids_digest
from stair.records.tensor_files import TensorFiles
from stair.sessions.backbone import Backbone
from stair.stages.replay.batch_files import Shapes
from stair.stages.replay.design.crossed import Batch, Design
from stair.stages.replay.design.design_tables import read_design
from stair.stages.replay.measurement.categories import SourceTokens
from stair.stages.replay.prompts import Prompts


class ReplayStudy:
    """One model's replay, without its weights.

    Raises:
        ValueError: the model, the benchmark or the saved responses cannot be read.
    """

    def __init__(self, config: Config, paths: RunPaths, model: str) -> None:
        assert config.replay is not None, "the graph has no replay of a run without one"
        self.config, self.paths, self.model = config, paths, model
        self.settings: Replay = config.replay
        self.backbone = Backbone.open(config, paths, model)
        self.prompts = Prompts(config, paths, model, self.backbone.renderer)
        check_layers(self.backbone.architecture, self.settings)
        self.shapes = Shapes.of_model(self.backbone.architecture, self.settings)
        self.work_folder = paths.work("replay", model)
        # A file has the same name in every run, because the design is a function of names.
        others = {run: other.replay_states(model) for run, other in paths.reused(config).items()}
        self.files = TensorFiles(paths.replay_states(model), others)

    def require_space(self, batches: Iterable[Batch], what: str) -> None:
        """Raises ValueError if the disk has no room for these batches. Files that exist are kept or replaced."""
        batches = list(batches)
        paths = [self.files.path(batch.name) for batch in batches]
        present = sum(path.stat().st_size for path in paths if path.is_file())
        self.files.require_space(max(0, self.shapes.nbytes(batches) - present), what)

    @cached_property
    def design(self) -> Design:
        """The design as it was sealed."""
        tables = self.paths.replay_histories(self.model), self.paths.replay_problems(self.model)
        return read_design(*tables, self.settings.batch_problems)

    @cached_property
    def columns(self) -> int:
        """Tokens of the longest current turn: the width of every batch, which so depends on the design alone."""
        return max(len(self.prompts.turn(problem).ids) for problem in self.design.references())

    def work(self, batches: Sequence[Batch]) -> tuple[list[SourceTokens], dict[Batch, str]]:
        """The sources by depth of the history that these batches share, and the key of each batch.

        Raises ValueError if a saved turn is absent, or a later turn's saved prompt does not begin with these sources.
        """
        history = batches[0].history
        sources = [self.prompts.empty] if history is None else self.prompts.sources(history)
        # A key has what decides the measurements; never a device, a shard or a run's name.
        common = {
            "measurement": "replay",
            "protocol_version": PROTOCOL_VERSION,
            "model": self.backbone.revision,
            "engine": self.backbone.engine.as_key(),
            "layers": self.settings.layers,
            "shape": [self.settings.batch_problems, self.columns],
            "sources": [[ids_digest(source.ids), *_ends(source)] for source in sources],
        }
        return sources, {batch: digest_of(common | self._of(batch)) for batch in batches}

    def _of(self, batch: Batch) -> dict[str, Any]:
        turns = [self.prompts.turn(problem) for problem in batch.problems]
        return {"turns": [[ids_digest(turn.ids), *turn.body] for turn in turns], "reads": batch.in_problem_coverage}


def check_layers(architecture: Architecture, replay: Replay) -> None:
    """Raises ValueError, with the key, for a layer whose masses, or reads and next MLP output, cannot be measured."""
    keys = {"replay.layers": replay.layers}
    if replay.analysis is not None:
        keys["replay.analysis.reported_layer"] = (replay.analysis.reported_layer,)
    for key, layers in keys.items():
        for layer in layers:
            if layer not in architecture.full_attention_layers:
                allowed = ", ".join(map(str, architecture.full_attention_layers))
                raise ValueError(
                    f"{key}: layer {layer} cannot be measured: it is not a full-attention layer of this {architecture.name}; "
                    f"those are {allowed}"
                )
    if (last := architecture.layers - 1) in replay.layers:
        raise ValueError(
            f"replay.layers: layer {last} cannot be measured: it is the last, and the read is set beside the next block's MLP "
            "output"
        )


def _ends(source: SourceTokens) -> list[int]:
    """Where a source's category changes: each start, and the category from there on, in turn."""
    changes = []
    for place, category in enumerate(source.categories):
        if place == 0 or category != source.categories[place - 1]:
            changes += [place, category]
    return changes
