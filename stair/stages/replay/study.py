"""The parts of one model's replay: backbone, prompts, design and files."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.replay import Replay
from stair.models.architecture import Architecture
from stair.records.keys import PROTOCOL_VERSION, digest_of, ids_digest
from stair.records.tensor_files import TensorFiles
from stair.sessions.backbone import Backbone
from stair.stages.replay.design.crossed import Design, HistoryWork
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
        self.work_folder = paths.work("replay", model)
        # A file has the same name in every run, because the design is a function of names.
        others = {run: other.replay_states(model) for run, other in paths.reused(config).items()}
        self.files = TensorFiles(paths.replay_states(model), others)

    @property
    def nbytes(self) -> int:
        """Bytes of all measurements."""
        model = self.backbone.architecture
        return self.settings.states_bytes(model.layers, len(model.full_attention_layers), model.hidden_size)

    def require_space(self, work: Sequence[HistoryWork], all_work: int, what: str) -> None:
        """Raises ValueError if the disk has no room for some of the work. Files that exist are kept or replaced."""
        paths = [self.files.path(each.name) for each in work]
        present = sum(path.stat().st_size for path in paths if path.is_file())
        self.files.require_space(max(0, self.nbytes * len(work) // all_work - present), what)

    @cached_property
    def design(self) -> Design:
        """The design as it was sealed."""
        return read_design(self.paths.replay_histories(self.model), self.paths.replay_problems(self.model))

    @cached_property
    def columns(self) -> int:
        """Tokens of the longest current turn: the width of every batch, which so depends on the design alone."""
        return max(len(self.prompts.turn(problem).ids) for problem in self.design.references())

    def sources(self, work: HistoryWork) -> list[SourceTokens]:
        """The prefixes of a history by depth.

        Raises ValueError if a saved turn is absent, or a later turn's saved prompt does not begin with these prefixes.
        """
        return [self.prompts.empty] if work.history is None else self.prompts.sources(work.history)

    def key(self, work: HistoryWork, sources: Sequence[SourceTokens]) -> str:
        """The digest of what decides the measurements; never a device, a shard or a run's name."""
        turns = [self.prompts.turn(problem) for problem in work.problems]
        return digest_of(
            {
                "measurement": "replay",
                "protocol_version": PROTOCOL_VERSION,
                "model": self.backbone.revision,
                "engine": self.backbone.engine.as_key(),
                "layers": self.settings.layers,
                "shape": [self.settings.batch_problems, self.columns],
                "sources": [[ids_digest(source.ids), *_ends(source)] for source in sources],
                "turns": [[ids_digest(turn.ids), *turn.body] for turn in turns],
                "reads": work.in_problem_coverage,
            }
        )


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
