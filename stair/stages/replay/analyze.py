"""Statistics of a measured replay: attention, geometry and read prediction from stored states (appendices A.2, A.3, A.6)."""

from __future__ import annotations

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.replay_analysis import REPLAY_PARTS
from stair.models.model_folder import read_architecture
from stair.records.rows import ReplayHistory
from stair.records.schemas import REPLAY_HISTORIES
from stair.records.tables import rows_as
from stair.stages.replay.analysis import attention_masses, geometry, read_prediction
from stair.stages.replay.analysis.crossing import Crossing
from stair.stages.replay.analysis.statistics_table import write_statistics
from stair.stages.replay.states import ReplayStates
from stair.stages.replay.study import check_layers


def analyze(config: Config, paths: RunPaths, model: str, part: str) -> None:
    """Computes one `part` of a model's statistics: `replay/MODEL/PART.parquet`, PART `attention`, `geometry`, `read_prediction`.

    Raises:
        ValueError: there is no such part, the model lacks the reported layer, or the replay is not measured or damaged.
    """
    if part not in PARTS:
        raise ValueError(f"the analysis has no part '{part}' (there are: {', '.join(PARTS)})")
    assert config.replay is not None and config.replay.analysis is not None, "the graph has no analysis then"
    architecture = read_architecture(paths.model_folder(config, model))
    check_layers(architecture, config.replay)
    states = ReplayStates(paths.replay_cells(model), paths.replay_states(model))
    histories = list(rows_as(paths.replay_histories(model), REPLAY_HISTORIES, ReplayHistory))
    crossings = [Crossing.of(number, states, histories) for number in (1, 2)]
    output = paths.replay_statistics(model, part)
    count = write_statistics(output, states.depth, PARTS[part](crossings, architecture, config.replay))
    print(f"{model}: {count:,} statistics in {output}")


PARTS = dict(
    zip(REPLAY_PARTS, (attention_masses.of_replay, geometry.of_replay, read_prediction.of_replay), strict=True)
)
