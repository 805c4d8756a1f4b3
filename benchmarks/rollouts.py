"""What the client and the work log add to what SGLang's server needs alone for the same requests.

    python -m benchmarks.rollouts [--environment .venv-sglang-cpu] [--responses 96] [--tokens 128] [--concurrency 16] [--rounds 5]

One server with a small random Qwen3 model on a CPU. A round sends the same requests twice, in turns: bare (bytes made
beforehand, sent over as many open connections, answers read and thrown away) and as a shard does (through its loop, every
answer checked, decoded and appended to a work log). The ratio of the two is what counts; it is taken in one run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import shutil
import statistics
import tempfile
import time
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from stair.config.engines import SGLangSettings
from stair.core import EngineIdentity
from stair.engines.base import Request, SamplingSettings
from stair.engines.sglang.client import Asker
from stair.engines.sglang.engine import SGLangEngine
from stair.records.progress import Progress
from stair.records.schemas import ROLLOUTS
from stair.records.seeds import seed_of
from stair.records.worklog import WorkLog, WorkLogWriter
from stair.sessions.renderer import Renderer
from stair.sessions.run import generate
from stair.sessions.trajectory import Generation, Need, Question, Trajectory

ROOT = Path(__file__).parents[1]
VOCABULARY = 666


def make_model(folder: Path) -> None:
    """A model folder: the tiny run's Qwen3 with random weights, whose responses seldom end by themselves."""
    shutil.copytree(ROOT / "backbones" / "tiny-qwen3-4b", folder, dirs_exist_ok=True)
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder)).save_pretrained(folder)


def trajectories(folder: Path, responses: int, tokens: int) -> list[Trajectory]:
    """One response each, like those of a shard."""
    settings = Generation(
        model_revision="-",
        engine=EngineIdentity("sglang", "-", "torch_native", "float32"),
        renderer=Renderer.load(folder, thinking=False),
        sampling=SamplingSettings(temperature=1.0, top_p=0.95, top_k=20, truncation="joint"),
        max_new_tokens=tokens,
        columns=tuple(ROLLOUTS.names),
    )
    found = []
    for number in range(responses):
        names = dict(model="small", record_id=str(number), problem_id=str(number), sample=0)
        question = Question(f"What is {number} + {number % 7}?", seed_of("benchmark", number), names)
        found.append(Trajectory(settings, [question]))
    return found


def request_of(trajectory: Trajectory) -> Request:
    trajectory.advance()
    step = trajectory.advance()
    assert isinstance(step, Need)
    return step.request


async def bare(address: str, bodies: list[bytes], concurrency: int) -> None:
    """Sends bodies over open connections and reads the answers, with nothing else."""
    place = urlsplit(address)
    waiting = iter(bodies)

    async def connection() -> None:
        reader, writer = await asyncio.open_connection(place.hostname, place.port, limit=1 << 24)
        for body in waiting:
            head = f"POST /generate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            assert b" 200 " in answer.split(b"\r\n")[0], answer
            length = next(line for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(int(length.split(b":")[1]))
        writer.close()

    await asyncio.gather(*(connection() for _ in range(concurrency)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--environment", type=Path, default=Path(".venv-sglang-cpu"))
    parser.add_argument("--responses", type=int, default=96)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "model"
        make_model(folder)
        settings = SGLangSettings(
            environment=str(options.environment), device="cpu", attention="torch_native", cache_tokens=16384,
            concurrency=options.concurrency,
        )  # fmt: skip
        log = Path(scratch) / "server.log"
        with closing(SGLangEngine(settings, folder, "float32", tokens=VOCABULARY, log=log)) as engine:
            measure(engine, folder, Path(scratch), options)


def measure(engine: SGLangEngine, folder: Path, scratch: Path, options: argparse.Namespace) -> None:
    """Prints a line a round, and the ratio."""
    asker = Asker(4096, VOCABULARY, VOCABULARY)
    requests = [request_of(each) for each in trajectories(folder, options.responses, options.tokens)]
    bodies = [json.dumps(asker.payload(request)).encode() for request in requests]
    generated = sum(completion.usage.response_tokens for completion in engine.run(requests))  # warms both sides up
    assert engine.server is not None
    print(f"{options.responses} responses, {generated} tokens, {options.concurrency} at a time")
    alone, shard_seconds, used = [], [], []
    for round_ in range(options.rounds):
        for who in ("bare", "shard") if round_ % 2 else ("shard", "bare"):
            urlopen(f"{engine.server.address}/flush_cache").read()
            start, spent = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
            if who == "bare":
                asyncio.run(bare(engine.server.address, bodies, options.concurrency))
                alone.append(time.perf_counter() - start)
                continue
            work = scratch / f"round-{round_}"
            fresh = trajectories(folder, options.responses, options.tokens)
            progress = Progress(work, "rollouts", total=options.responses, unit="responses")
            start, spent = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
            with WorkLogWriter(work / "log", "shard") as writer:
                generate(fresh, engine, WorkLog(work / "none"), writer, progress, [])
            shard_seconds.append(time.perf_counter() - start)
            after = resource.getrusage(resource.RUSAGE_SELF)
            used.append(after.ru_utime + after.ru_stime - spent.ru_utime - spent.ru_stime)
            assert len(WorkLog(work / "log")) == options.responses
        bare_seconds, seconds = alone[-1], shard_seconds[-1]
        print(
            f"round {round_}: server alone {bare_seconds:.2f} s, shard {seconds:.2f} s, ratio {seconds / bare_seconds:.3f}"
        )
    ratios = [shard / bare_ for shard, bare_ in zip(shard_seconds, alone, strict=True)]
    print(
        f"ratio: median {statistics.median(ratios):.3f}, of sums {sum(shard_seconds) / sum(alone):.3f}; "
        f"{generated / statistics.median(shard_seconds):.0f} tokens/s; "
        f"the client's CPU time a response {statistics.median(used) / options.responses * 1e3:.2f} ms"
    )


if __name__ == "__main__":
    main()
