"""The work log and the seal at scale: responses a second, and the memory of the process.

    python -m benchmarks.records [--responses 100000] [--tokens 512] [--folder FOLDER]

Writes the responses of a rollout stage to a work log, one record each, as a shard does; then seals them into the stage's
table, as `stair seal-rollouts` does: prompts rendered, keys computed, records looked up, rows checked, Parquet written. Each
phase is a process of its own, so that its peak memory is its own. What is not here: the model, and decoding ids to text.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import shutil
import string
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from stair.core import EngineIdentity, user_message
from stair.engines.base import SamplingSettings
from stair.records.schemas import ROLLOUTS
from stair.records.seeds import seed_of
from stair.records.tables import write_table
from stair.records.worklog import WorkLog, WorkLogWriter
from stair.sessions.renderer import Renderer
from stair.sessions.run import sealed_rows
from stair.sessions.trajectory import Generation, Question, Trajectory

SAMPLES = 4
PROMPT = "Please reason step by step, and put your final answer within \\boxed{}.\n\n{problem}"
PROBLEM = "A train leaves at {hour} and travels {distance} km at {speed} km/h. After how many minutes does it arrive?"


def settings() -> Generation:
    return Generation(
        model_revision="0" * 64,
        engine=EngineIdentity("transformers", "1", "sdpa", "bfloat16"),
        renderer=Renderer.load(Path(__file__).parents[1] / "backbones/tiny-qwen3-4b", thinking=False),
        sampling=SamplingSettings(temperature=0.7, top_p=0.8, top_k=20),
        max_new_tokens=4096,
        columns=tuple(ROLLOUTS.names),
    )


def trajectories(responses: int) -> Iterator[Trajectory]:
    shared = settings()
    for number in range(responses // SAMPLES):
        problem = PROBLEM.format(hour=number % 24, distance=number, speed=1 + number % 97)
        user, record = user_message(PROMPT, problem), f"{number:064x}"
        for sample in range(SAMPLES):
            names = dict(model="model", record_id=record, problem_id=record, sample=sample)
            seed = seed_of("rollouts", "problems", "model", record, sample)
            yield Trajectory(shared, [Question(user, seed, names)])


def responses_of(tokens: int) -> Iterator[dict[str, Any]]:
    """Responses without end, of ids as a vocabulary of 150,000 has them and text of four letters a token."""
    drawn = np.random.default_rng(0)
    letters = np.frombuffer((string.ascii_lowercase + " " * 6).encode(), np.uint8)
    while True:
        ids = drawn.integers(150_000, size=tokens).tolist()
        text = drawn.choice(letters, size=4 * tokens).tobytes().decode()
        yield {
            "response_tokens": tokens,
            "response": text,
            "finish_reason": "stop",
            "response_ids": ids,
            "engine": "transformers",
            "engine_version": "1",
            "attention": "sdpa",
            "dtype": "bfloat16",
            "device": "cpu",
        }


def log(folder: Path, responses: int, tokens: int) -> float:
    """Appends; rendering prompts and drawing responses is generation's time, not the log's."""
    seconds = 0.0
    batches = zip(trajectories(responses), responses_of(tokens), strict=False)
    with WorkLogWriter(folder / "log", "shard-0-of-1") as writer:
        while batch := list(islice(batches, 1000)):
            records = [(str(trajectory.advance()), record) for trajectory, record in batch]
            start = time.perf_counter()
            for key, record in records:
                writer.append(key, record)
            seconds += time.perf_counter() - start
        start = time.perf_counter()
    return seconds + time.perf_counter() - start


def read(folder: Path, responses: int, tokens: int) -> float:
    start = time.perf_counter()
    assert len(WorkLog(folder / "log")) == responses
    return time.perf_counter() - start


def seal(folder: Path, responses: int, tokens: int) -> float:
    start = time.perf_counter()
    assert write_table(folder / "rollouts.parquet", ROLLOUTS, sealed_rows(trajectories(responses), folder)) == responses
    return time.perf_counter() - start


PHASES = {"log": log, "read the log": read, "seal (with reading)": seal}


def measured(name: str, folder: Path, responses: int, tokens: int) -> None:
    """Runs one phase in this process, which does nothing else, and files what it took."""
    seconds = PHASES[name](folder, responses, tokens)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    (folder / "measured.json").write_text(json.dumps([seconds, memory]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--responses", type=int, default=100_000)
    parser.add_argument("--tokens", type=int, default=512, help="tokens of a response")
    parser.add_argument("--folder", type=Path, help="where to write (default: a temporary folder)")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="records-", dir=arguments.folder))
    total, place = 0.0, multiprocessing.get_context("spawn")
    try:
        print(f"{arguments.responses:,} responses of {arguments.tokens} tokens\n")
        print("| phase | seconds | responses/s | peak memory | size |\n|---|---:|---:|---:|---:|")
        for name in PHASES:
            process = place.Process(target=measured, args=(name, folder, arguments.responses, arguments.tokens))
            process.start()
            process.join()
            assert process.exitcode == 0
            seconds, memory = json.loads((folder / "measured.json").read_text())
            total += 0.0 if name == "read the log" else seconds
            path = folder / "rollouts.parquet" if name.startswith("seal") else folder / "log" / "shard-0-of-1.000.log"
            size = path.stat().st_size / 2**20
            rate = arguments.responses / seconds
            print(f"| {name} | {seconds:.1f} | {rate:,.0f} | {memory:.0f} MiB | {size:,.0f} MiB |", flush=True)
        print(f"| log and seal | {total:.1f} | {arguments.responses / total:,.0f} | | |")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
