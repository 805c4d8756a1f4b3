"""The analysis of a replay at the paper's size: time of each part, extrapolated to all layers, and peak memory.

    python -m benchmarks.geometry                  # 8,192 three-turn cells of three layers, 1.6 GB in a temporary folder
    python -m benchmarks.geometry --layers 4 --hidden 1024 --resamples 100

Synthetic states (additive effects, interaction, noise) in the stage's own files and index, over the paper's design. The index
has all 61,440 cells; files are written for the problem coverage, at all depths. The second layer is the reported one.
Layers 0 to L - 2 have reads. All layers are extrapolated from a plain layer, the reported one, the first measured layer and
a further measured one. Times are processor time of this process with one thread.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.figures import Bar, Figures
from stair.cli.context import set_threads

if TYPE_CHECKING:
    from stair.config.replay import Replay
    from stair.models.architecture import Architecture
    from stair.stages.replay.design.crossed import Batch

MOST_GIB, MOST_MINUTES = 16, 30
PAPER_LAYERS, PAPER_MEASURED = 36, 4
ROOT = Path(__file__).parents[1]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--layers", type=int, default=3)
    options.add_argument("--hidden", type=int, default=2560)
    options.add_argument("--resamples", type=int, default=1000)
    options.add_argument("--folder", type=Path, help="where the states are written; default: a temporary folder")
    Figures.add_argument(options)
    chosen = options.parse_args()
    set_threads(1)
    figures, folder = Figures(chosen.json), Path(tempfile.mkdtemp(dir=chosen.folder))
    try:
        measure(chosen, folder, figures)
        figures.finish()
    finally:
        shutil.rmtree(folder)


def measure(chosen: argparse.Namespace, folder: Path, figures: Figures) -> None:
    """Write the states, run all three parts on them, and print times and memory."""
    from stair.config import resolve
    from stair.models.architecture import Architecture
    from stair.stages.replay.analysis import attention_masses, geometry, read_prediction
    from stair.stages.replay.analysis.crossing import Crossing
    from stair.stages.replay.states import ReplayStates

    replay = resolve(ROOT, {"run": "paper"}).replay
    assert replay is not None and replay.analysis is not None
    analysis = replay.analysis.model_copy(update={"reported_layer": 1, "resamples": chosen.resamples})
    replay = replay.model_copy(
        update={"seed": "benchmark", "layers": tuple(range(chosen.layers - 1)), "analysis": analysis}
    )
    architecture = Architecture(
        name="synthetic", layers=chosen.layers, full_attention_layers=tuple(range(chosen.layers)),
        hidden_size=chosen.hidden, query_heads=32, kv_heads=8, head_dim=128, rotary_dim=128, rope_theta=1e6, gated=False,
        vocabulary=1000, context=1 << 18, tied_embeddings=True,
    )  # fmt: skip
    begun = time.process_time()
    cells, histories = write_states(folder, replay, architecture)
    print(f"written in {time.process_time() - begun:.0f} s")
    begun = time.process_time()
    crossings = [Crossing.of(number, ReplayStates(cells, folder / "states"), histories) for number in (1, 2)]
    opened = time.process_time() - begun
    parts: dict[str, float] = {"index": opened}

    def timed(statistics: Iterable[Any], key: Callable[[Any], Any]) -> None:
        """Adds the time until each statistic to its key."""
        before = time.process_time()
        for each in statistics:
            now = time.process_time()
            name = key(each)
            parts[name] = parts.get(name, 0.0) + now - before
            before = now

    run = (crossings, architecture, replay)
    timed(attention_masses.of_replay(*run), lambda each: "attention, all layers")
    timed(geometry.of_replay(*run), lambda each: f"geometry, {'reported' if each.layer == 1 else 'plain'}")
    timed(read_prediction.of_replay(*run), lambda each: f"read prediction, {'first' if each.layer == 0 else 'further'}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    whole = (
        3 * parts["index"]
        + parts["attention, all layers"] * PAPER_LAYERS / chosen.layers
        + parts["geometry, reported"]
        + parts["geometry, plain"] * (PAPER_LAYERS - 1) / (chosen.layers - 1)
        + parts["read prediction, first"]
        + parts["read prediction, further"] * (PAPER_MEASURED - 1) / (len(replay.layers) - 1)
    ) / 60
    where = f"{chosen.layers} layers of {chosen.hidden}, {chosen.resamples} resamples"
    for name, spent in parts.items():
        print(f"  {name:28} {spent:8.1f} s")
        figures.add(f"{where}: {name}", spent, "s")
    print(f"  {PAPER_LAYERS} layers, {PAPER_MEASURED} of them with reads: {whole:.1f} min; peak {peak:.2f} GiB")
    figures.add(f"{where}: all {PAPER_LAYERS} layers", whole, "min", Bar(MOST_MINUTES))
    figures.add(f"{where}: peak memory", peak, "GiB", Bar(MOST_GIB))


def write_states(folder: Path, replay: Replay, architecture: Architecture) -> tuple[Path, list[Any]]:
    """Write an index and the problem coverage's files; return the index and rows of `REPLAY_HISTORIES`."""
    import numpy as np

    from stair.records.keys import file_digest
    from stair.records.rows import ReplayHistory
    from stair.records.schemas import REPLAY_CELLS
    from stair.records.tables import write_table
    from stair.records.tensor_files import TensorFiles
    from stair.stages.replay.batch_files import Shapes
    from stair.stages.replay.design.crossed import crossed_design
    from stair.stages.replay.design.design_tables import history_rows
    from stair.stages.sessions.evaluation_sessions import evaluation_sessions

    sessions: dict[str, list[str]] = {}
    for row in evaluation_sessions([f"p{number:04d}" for number in range(500)], "math500", "benchmark"):
        sessions.setdefault(row["session_id"], []).append(row["problem_id"])
    paths = {session: [0, 1, 2, 3] for session in sessions}
    design = crossed_design(sessions, paths, replay)
    shapes, layers, hidden = Shapes.of_model(architecture, replay), architecture.layers, architecture.hidden_size
    files, generator = TensorFiles(folder / "states"), np.random.default_rng(0)
    slope = generator.normal(0, 0.3 / np.sqrt(hidden), (hidden, hidden)).astype(np.float32)
    tokens = {
        history: tuple(sorted(generator.integers(500, 19_000, replay.depth).tolist()))
        for group in design.groups
        for history in group.history_coverage.histories
    }

    def drawn(shape: tuple[int, ...]) -> Any:
        return generator.standard_normal(shape, np.float32)

    own: dict[str, Any] = {}

    def tensors(batch: Batch) -> dict[str, Any]:
        found = {}
        problems = np.stack([own.setdefault(each, drawn((layers, hidden))) for each in batch.problems], axis=1)
        moved = drawn((layers, 1, hidden))
        for name, shape in shapes.of(batch).items():
            depth, kind = name.split("/")
            if kind == "block_outputs":
                found[name] = problems if depth == "0" else problems * 1.3 + moved + 0.1 * drawn(shape)
            elif kind == "masses":
                found[name] = generator.dirichlet(np.ones(shape[-1]), shape[:-1]).astype(np.float32)
            elif kind == "next_mlp" and depth != "0":
                found[name] = found[f"{depth}/reads"][:, :, 1] @ slope + drawn(shape)
            else:
                found[name] = drawn(shape)
        return found

    digests: dict[str, str] = {}
    for batch in chain.from_iterable(design.batches()):
        if batch.in_problem_coverage:
            files.keep(batch.name, "synthetic", tensors(batch))
            digests[batch.name] = file_digest(files.path(batch.name))

    def rows() -> Iterator[dict[str, Any]]:
        for batch in chain.from_iterable(design.batches()):
            history, wide = batch.history, design.groups[batch.group - 1].history_coverage
            for depth in batch.depths(replay.depth):
                for row, problem in enumerate(batch.problems):
                    yield dict(
                        group=batch.group,
                        history=None if history is None else history.name,
                        depth=depth,
                        problem_id=problem,
                        history_coverage=problem in wide.problems,
                        problem_coverage=batch.in_problem_coverage,
                        prefix_tokens=0 if history is None else tokens[history][depth - 1],
                        file=f"{batch.name}.safetensors",
                        row=row,
                        sha256=digests.get(batch.name, ""),
                    )

    index = folder / "cells.parquet"
    write_table(index, REPLAY_CELLS, rows())
    return index, [ReplayHistory(**row) for row in history_rows(design, tokens)]


if __name__ == "__main__":
    main()
