"""Measure the Transformers engine's decoding beside a batch-one `generate` loop, natively and with STAIR and capture.

    python -m benchmarks.decode                   on the CPU, one thread, float32, tiny models; about two minutes
    python -m benchmarks.decode --device cuda     on a GPU, bfloat16, the shapes of Qwen3-4B and Qwen3.5-4B, random weights
    python -m benchmarks.decode --batch 1 16      one response at a time, and 16

All forms answer the same prompts with the same number of tokens and the same sampling, in rounds that alternate. `tokens/s` is
everything together, prefill included, in a form's fastest round. `decode` is the engine's rows over the median time of a step,
drawing included; its ratio to Native's is the median over the rounds, so that what else the machine does weighs little.
Prints a table, writes it with --out, ends with status 1 when a bar is missed: the engine makes four times the
loop's tokens/s from a batch of 16 on, and STAIR with capture decodes at no less than nine tenths of Native's speed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.figures import Bar, Figures
from benchmarks.models import SHAPES, TINY, controlled_layers
from stair.engines.base import Capture, Request, SamplingSettings
from stair.engines.transformers import TransformersEngine
from stair.method import Bank, Read, Reflector, Segment
from stair.records.text_tables import csv_table
from stair.stages.runtime.shapes import random_model

SAMPLING = SamplingSettings(temperature=0.7, top_p=0.8, top_k=20)
FASTER, KEPT = 4.0, 0.9
WIDE = 16
"""From this batch on the engine's tokens/s are held to the loop's."""
TARGETS = {1: 100.0, 64: 2540.0}
"""Decoding on one H200-class GPU in tokens a second, by batch: what the project aims at."""
PAPER = "the paper's fixed workload (Qwen3.5-4B, A800, batch one, BF16): 256 tokens in 10.08 s, 25.4 tokens/s"

Form = Callable[[], int]
"""One way of answering all requests; returns how many tokens it made."""


@dataclass(frozen=True)
class Case:
    """What is asked, and how widely."""

    prompt: int
    tokens: int
    bank: int
    requests: int
    batch: int
    prefill: int


@dataclass(frozen=True)
class Row:
    """One measurement; speeds in tokens a second over all rows together."""

    shape: str
    form: str
    batch: int
    tokens_per_s: float
    decode_per_s: float | None
    """Decoding alone; of the loop it is not measured."""
    to_loop: float
    """tokens/s over the loop's."""
    to_native: float | None
    """Decoding speed over Native's."""

    def report(self, figures: Figures) -> None:
        where = f"{self.shape}, batch {self.batch}, {self.form}"
        bars = [Bar(FASTER, at_least=True)] if self.form == "native" and self.batch >= WIDE else []
        figures.add(f"{where}: all", self.tokens_per_s, "tokens/s")
        figures.add(f"{where}: all over the loop", self.to_loop, "x", *bars)
        if self.decode_per_s is None or self.to_native is None:
            return
        target = TARGETS.get(self.batch)
        bars = [] if target is None else [Bar(target, at_least=True, target=True)]
        figures.add(f"{where}: decoding", self.decode_per_s, "tokens/s", *bars)
        if self.form != "native":
            figures.add(f"{where}: decoding over Native's", self.to_native, "x", Bar(KEPT, at_least=True))


def requests(case: Case, vocabulary: int) -> list[Request]:
    """Random prompts without an end marker: every response has the same length."""
    generator = torch.Generator().manual_seed(1)
    prompts = torch.randint(0, vocabulary, (case.requests, case.prompt), generator=generator).tolist()
    return [
        Request(f"{number}", tuple(prompt), SAMPLING, number, case.tokens, stop_ids=())
        for number, prompt in enumerate(prompts)
    ]


def forms(model: Any, case: Case, layers: tuple[int, ...], loop: int, step: Callable[[], None]) -> dict[str, Form]:
    """What is measured. `loop` is how many requests the loop answers; engines call `step` at every decoding step."""
    plain = TransformersEngine(
        model, tokens=model.config.vocab_size, batch_width=case.batch, prefill_width=case.prefill, cache_block=64
    )
    reading = TransformersEngine(
        model, tokens=model.config.vocab_size, layers=layers, batch_width=case.batch, prefill_width=case.prefill,
        cache_block=64,
    )  # fmt: skip
    plain_requests = requests(case, model.config.vocab_size)
    facts = reading.architecture
    controller = Reflector.draw(layers, facts.query_heads, facts.head_dim, seed=0).to(model.device)
    states = torch.randn(2, len(layers), facts.kv_heads, case.bank, facts.head_dim).to(model.dtype)
    bank = Bank(layers, [Segment(layers, *states)])
    bank.pin()
    plain.watch = reading.watch = lambda running, generated: step()
    read = Read(bank, controller, span=(case.prompt // 2, case.prompt))

    def generate() -> int:
        for request in plain_requests[:loop]:
            ids = torch.tensor([request.prompt_ids], device=model.device)
            model.generate(
                ids, attention_mask=torch.ones_like(ids), do_sample=True, temperature=SAMPLING.temperature,
                top_p=SAMPLING.top_p, top_k=SAMPLING.top_k, min_new_tokens=case.tokens, max_new_tokens=case.tokens,
                eos_token_id=None, pad_token_id=0,
            )  # fmt: skip
        return loop * case.tokens

    def native() -> int:
        return sum(len(done.response_ids) for done in plain.run(plain_requests))

    def stair() -> int:
        reading_requests = (replace(each, read=read, capture=Capture(layers, None)) for each in plain_requests)
        return sum(len(done.response_ids) for done in reading.run(reading_requests))

    return {"generate, one by one": generate, "native": native, "stair and capture": stair}


def measure(shape: str, model: Any, case: Case, layers: tuple[int, ...], rounds: int, loop: int) -> list[Row]:
    """Every form in turn, in each round; the first round warms up and does not count."""
    # Wall time on CUDA, where each draw waits for the device; on the CPU the process's own, which other work disturbs less.
    clock = time.perf_counter if model.device.type == "cuda" else time.process_time
    ticks: list[float] = []
    calls = forms(model, case, layers, loop, lambda: ticks.append(clock()))
    seconds_of: dict[str, list[float]] = {name: [] for name in calls}
    steps: dict[str, list[float]] = {name: [] for name in calls}
    token_counts = {}
    for turn in range(rounds + 1):
        for name, call in calls.items():
            ticks.clear()
            start = clock()
            token_counts[name] = call()
            if model.device.type == "cuda":
                torch.cuda.synchronize()
            if turn:
                seconds_of[name].append(clock() - start)
                if ticks:
                    steps[name].append(median(later - earlier for earlier, later in pairwise(ticks)))
    speed = {name: token_counts[name] / min(seconds_of[name]) for name in calls}
    looped = speed[next(iter(calls))]
    rows = []
    for name in calls:
        decode = to_native = None
        if steps[name]:
            decode = case.batch / median(steps[name])
            to_native = median(native / own for native, own in zip(steps["native"], steps[name], strict=True))
        rows.append(Row(shape, name, case.batch, speed[name], decode, speed[name] / looped, to_native))
    return rows


def show(row: Row) -> None:
    print(
        f"{row.shape:18} {row.form:21} batch {row.batch:3}  {row.tokens_per_s:9.1f} tokens/s {row.to_loop:6.2f} x the loop"
        + ("" if row.decode_per_s is None else f"  decode {row.decode_per_s:9.1f} {row.to_native:5.2f} x native"),
        flush=True,
    )


def missed_bars(rows: list[Row]) -> list[str]:
    """One line for each bar that a measurement misses."""
    missed = []
    for row in rows:
        if row.form == "native" and row.batch >= WIDE and row.to_loop < FASTER:
            missed.append(f"{row.shape}: {row.to_loop:.2f} times the loop's tokens/s, below {FASTER}")
        if row.form == "stair and capture" and row.to_native is not None and row.to_native < KEPT:
            missed.append(
                f"{row.shape}: STAIR with capture decodes at {row.to_native:.2f} of Native's speed, below {KEPT}"
            )
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--shapes", nargs="+", choices=list(SHAPES))
    parser.add_argument("--batch", type=int, nargs="+", default=[16], help="responses at once")
    parser.add_argument("--loop", type=int, help="requests that the loop answers (all; 2 on a GPU)")
    parser.add_argument("--prompt", type=int, help="tokens of a prompt (96; 2,048 on a GPU)")
    parser.add_argument("--tokens", type=int, help="tokens of a response (64; 256 on a GPU)")
    parser.add_argument("--bank", type=int, help="entries of the bank that STAIR reads (128; 32,768 on a GPU)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1, help="CPU threads")
    parser.add_argument("--out", type=Path, help="write the table as CSV")
    Figures.add_argument(parser)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    gpu = arguments.device == "cuda"
    if gpu and not torch.cuda.is_available():
        parser.error("--device cuda: there is no CUDA device here")
    figures, rows = Figures(arguments.json), []
    dtype = torch.bfloat16 if gpu else torch.float32
    for shape in arguments.shapes or (["qwen3-4b-instruct", "qwen3.5-4b"] if gpu else list(TINY)):
        model = None
        for batch in arguments.batch:
            case = Case(
                prompt=arguments.prompt or (2048 if gpu else 96),
                tokens=arguments.tokens or (256 if gpu else 64),
                bank=arguments.bank or (32_768 if gpu else 128),
                requests=batch,
                batch=batch,
                prefill=1 if gpu else 8,
            )
            loop = min(batch, arguments.loop or (2 if gpu else batch))
            with figures.case(f"{shape}, batch {batch}"):
                model = model or random_model(SHAPES[shape], arguments.device, dtype)
                for row in measure(shape, model, case, controlled_layers(shape), arguments.rounds, loop):
                    rows.append(row)
                    show(row)
                    row.report(figures)
        del model
    if gpu:
        print(PAPER)
    if arguments.out is not None:
        columns = list(Row.__dataclass_fields__)
        arguments.out.write_text(csv_table(columns, ([getattr(row, name) for name in columns] for row in rows)))
    figures.finish()
    missed = missed_bars(rows)
    print("\n".join(missed) if missed else "every bar is met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
