"""The analysis of a replay at the paper's size: time of each part, extrapolated to all layers, and peak memory.

    python -m benchmarks.geometry                  # 8,192 three-turn cells of three layers, 1.6 GB in a temporary folder
    python -m benchmarks.geometry --layers 4 --hidden 1024 --resamples 100

Synthetic states (additive effects, interaction, noise) in the stage's own files, over the paper's design: files are written for
the problem coverage. The second layer is the reported one, and layers 0 to L - 2 have reads. All layers are extrapolated from a
plain layer, the reported one, the last one, the first measured layer and a further measured one. Times are processor time of
this process with one thread. They grow with the hidden size; those of intervals are a constant and a part for each resample.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.figures import Bar, Figures
from stair.cli.context import set_threads

if TYPE_CHECKING:
    from stair.config.replay import Replay
    from stair.models.architecture import Architecture
    from stair.stages.replay.design.crossed import Design

MOST_GIB, MOST_MINUTES = 16, 30
PAPER_LAYERS, PAPER_MEASURED = 36, 4
ROOT = Path(__file__).parents[1]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--layers", type=int, default=3)
    options.add_argument("--hidden", type=int, default=2560)
    options.add_argument("--resamples", type=int, default=200)
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
    design, histories = write_states(folder, replay, architecture)
    print(f"written in {time.process_time() - begun:.0f} s")
    crossings = [Crossing.of(group, ReplayStates(folder / "states.sha256"), histories) for group in design.groups]
    parts: dict[str, float] = {}

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
    kinds = {1: "reported", chosen.layers - 1: "last"}
    timed(geometry.of_replay(*run), lambda each: f"geometry, {kinds.get(each.layer, 'plain')}")
    timed(read_prediction.of_replay(*run), lambda each: f"read prediction, {'first' if each.layer == 0 else 'further'}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    whole = (
        parts["attention, all layers"] * PAPER_LAYERS / chosen.layers
        + parts["geometry, reported"]
        + parts["geometry, last"]
        + parts["geometry, plain"] * (PAPER_LAYERS - 2) / (chosen.layers - 2)
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


def write_states(folder: Path, replay: Replay, architecture: Architecture) -> tuple[Design, list[Any]]:
    """Write the problem coverage's files; return the design and rows of `REPLAY_HISTORIES`."""
    import numpy as np

    from stair.records.keys import file_digest
    from stair.records.rows import ReplayHistory
    from stair.records.tensor_files import TensorFiles
    from stair.stages.replay.design.crossed import crossed_design
    from stair.stages.replay.design.design_tables import history_rows
    from stair.stages.sessions.evaluation_sessions import evaluation_sessions

    sessions: dict[str, list[str]] = {}
    for row in evaluation_sessions([f"p{number:04d}" for number in range(500)], "math500", "benchmark"):
        sessions.setdefault(row["session_id"], []).append(row["problem_id"])
    design = crossed_design(sessions, {session: [0, 1, 2, 3] for session in sessions}, replay)
    layers, hidden, attending = architecture.layers, architecture.hidden_size, len(architecture.full_attention_layers)
    files, generator = TensorFiles(folder / "states"), np.random.default_rng(0)
    slope = generator.normal(0, 0.3 / np.sqrt(hidden), (hidden, hidden)).astype(np.float32)
    tokens = {
        history: tuple(sorted(generator.integers(500, 19_000, replay.depth).tolist()))
        for group in design.groups
        for history in group.history_coverage.histories
    }

    def drawn(*shape: int) -> Any:
        return generator.standard_normal(shape, np.float32)

    own: dict[str, Any] = {}
    checksums = []
    for work in design.work():
        if not work.in_problem_coverage:
            continue
        count, depth = len(work.problems), work.depths(replay.depth)[-1]
        states = np.stack([own.setdefault(each, drawn(layers, hidden)) for each in work.problems], axis=1)
        if depth:
            states = states * 1.3 + drawn(layers, 1, hidden) + 0.1 * drawn(*states.shape)
        reads = drawn(len(replay.layers), count, 4, hidden)
        tensors = {
            "block_outputs": states,
            "masses": generator.dirichlet(np.ones(4), (attending, count)).astype(np.float32),
            "reads": reads,
            "next_mlp": reads[:, :, 1] @ slope + drawn(len(replay.layers), count, hidden),
        }
        if not depth:
            tensors["embedding"] = drawn(count, hidden)
        files.keep(work.name, "synthetic", {f"{depth}/{name}": part for name, part in tensors.items()})
        path = files.path(work.name)
        checksums.append(f"{file_digest(path)}  {path.relative_to(folder)}\n")
    (folder / "states.sha256").write_text("".join(checksums), encoding="utf-8")
    return design, [ReplayHistory(**row) for row in history_rows(design, tokens)]


if __name__ == "__main__":
    main()
