"""The bytes of a replay, counted tensor by tensor, and its batches (appendix A.1)."""

from __future__ import annotations

from stair.config.replay import Replay
from stair.config.resolve import resolve
from stair.models.architecture import describe
from stair.models.published import CONFIGS
from stair.stages.replay.batch_files import Shapes, Unit, shared_histories
from stair.stages.replay.design.crossed import crossed_design
from tests.replay.test_crossed_design import PAPER, ROOT, four_paths, schedule


def paper() -> tuple[Replay, Shapes, list[Unit]]:
    """The paper's replay over one of the evaluation's schedules."""
    settings = resolve(ROOT, {"run": "paper"}).replay
    assert settings is not None
    shapes = Shapes.of_model(describe(CONFIGS["qwen3-4b-instruct"]), settings.layers, settings.depth)
    sessions = schedule(500)
    design = crossed_design(sessions, four_paths(sessions), PAPER, settings.seed)
    return settings, shapes, [unit for shared in shared_histories(design) for unit in shared.units]


def test_the_papers_replay_takes_24_5_gb() -> None:
    settings, shapes, units = paper()
    layers, hidden, categories = 36, 2560, 4
    cells, references, full_depth_problem_coverage = 49_152 + 12_288, 256, 2 * 128 * 32
    everywhere = layers * hidden + layers * categories
    with_reads = len(settings.layers) * (categories * hidden + hidden)
    numbers = (cells + references) * everywhere + references * hidden
    numbers += (full_depth_problem_coverage + references) * with_reads
    assert shapes.nbytes(units) == 4 * numbers == 24_511_922_176


def test_the_papers_batches() -> None:
    _, _, units = paper()
    assert {len(unit.batch.problems) for unit in units} == {16}
    with_history = [unit for unit in units if unit.batch.history is not None]
    assert len(with_history) * 3 * 16 == 61_440
    assert (len(units) - len(with_history)) * 16 == 256
    assert len({unit.name for unit in units}) == len(units)
