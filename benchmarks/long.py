"""Measure a batch of long prompts and long responses: speed and peak memory, natively and with STAIR and capture.

    python -m benchmarks.long                   tiny models on the CPU, float32, in seconds
    python -m benchmarks.long --device cuda     Qwen3-4B's shape in bfloat16: 16 rows, prompts of 16,384 tokens, 2,000 decoded

These are the lengths of later turns of hard problems. Here prompts that are held together, a step that is recorded again and
a cache that grows would show, and in short responses they do not. `all` has prefill and decoding; `decoding` is the rows
over the median time of a step. `rows` is the width at the end: less than the batch if memory ran out.
"""

from __future__ import annotations

import argparse
import gc
import math
import time
from dataclasses import replace
from itertools import pairwise
from statistics import median
from typing import Any

import torch

from benchmarks.decode import Case, requests
from benchmarks.figures import Figures
from benchmarks.models import SHAPES, controlled_layers
from stair.engines.base import Capture, Request
from stair.engines.transformers import TransformersEngine
from stair.method import Bank, Read, Reflector, Segment
from stair.models.architecture import describe
from stair.stages.runtime.shapes import random_model


def reading(wanted: list[Request], model: Any, layers: tuple[int, ...], entries: int) -> list[Request]:
    """The same requests with a read of one random bank by the prompt's second half, and with capture."""
    facts = describe(model.config.to_dict())
    states = torch.randn(2, len(layers), facts.kv_heads, entries, facts.head_dim).to(model.dtype)
    bank = Bank(layers, [Segment(layers, *states)])
    controller = Reflector.draw(layers, facts.query_heads, facts.head_dim, seed=0).to(model.device)
    prompt = len(wanted[0].prompt_ids)
    read = Read(bank, controller, span=(prompt // 2, prompt))
    return [replace(each, read=read, capture=Capture(layers, None)) for each in wanted]


def measure(where: str, model: Any, layers: tuple[int, ...], wanted: list[Request], figures: Figures) -> None:
    """Answer the requests once, in a batch that has a row for each."""
    gpu = model.device.type == "cuda"
    engine = TransformersEngine(model, tokens=model.config.vocab_size, layers=layers, batch_width=len(wanted))
    steps, rows = [], [len(wanted)]

    def watch(running: int, _: int) -> None:
        steps.append(time.perf_counter())
        rows[0] = min(rows[0], running)

    engine.watch = watch
    if gpu:
        torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    tokens = sum(len(done.response_ids) for done in engine.run(wanted))
    seconds = time.perf_counter() - began
    step = median(later - earlier for earlier, later in pairwise(steps))
    peak = torch.cuda.max_memory_allocated() / 2**30 if gpu else math.nan
    reserved = f"{torch.cuda.max_memory_reserved() / 2**30:.1f} GiB reserved" if gpu else ""
    for name, value, unit, note in (
        ("all", tokens / seconds, "tokens/s", f"{seconds:.1f} s"),
        ("decoding", rows[0] / step, "tokens/s", f"{step * 1000:.1f} ms a step"),
        ("peak memory", peak, "GiB", reserved),
        ("rows", rows[0], "rows", ""),
    ):
        print(f"{where}: {name:12} {value:10.1f} {unit} {note}", flush=True)
        figures.add(f"{where}: {name}", value, unit, note=note)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--shape", choices=list(SHAPES), help="qwen3-4b-instruct on a GPU, else tiny-qwen3")
    parser.add_argument("--attention", default="auto", help="as transformers.attention")
    parser.add_argument("--rows", type=int, help="of the batch (4; 16 on a GPU)")
    parser.add_argument("--prompt", type=int, help="tokens of a prompt (200; 16,384 on a GPU)")
    parser.add_argument("--tokens", type=int, help="tokens of a response (40; 2,000 on a GPU)")
    parser.add_argument("--bank", type=int, help="entries of the bank that STAIR reads (100; 32,768 on a GPU)")
    Figures.add_argument(parser)
    chosen = parser.parse_args()
    gpu = chosen.device == "cuda"
    if gpu and not torch.cuda.is_available():
        parser.error("--device cuda: there is no CUDA device here")
    shape = chosen.shape or ("qwen3-4b-instruct" if gpu else "tiny-qwen3")
    rows = chosen.rows or (16 if gpu else 4)
    case = Case(
        prompt=chosen.prompt or (16_384 if gpu else 200),
        tokens=chosen.tokens or (2_000 if gpu else 40),
        bank=chosen.bank or (32_768 if gpu else 100),
        requests=rows,
        batch=rows,
        prefill=1,
    )
    figures, layers = Figures(chosen.json), controlled_layers(shape)
    model = random_model(SHAPES[shape], chosen.device, torch.bfloat16 if gpu else torch.float32, chosen.attention)
    native = requests(case, model.config.vocab_size)
    for form in ("native", "stair and capture"):
        where = f"{shape}, {rows} rows, prompts of {case.prompt:,}, {case.tokens:,} decoded, {form}"
        with figures.case(where):
            wanted = native if form == "native" else reading(native, model, layers, case.bank)
            measure(where, model, layers, wanted, figures)
        gc.collect()
        if gpu:
            torch.cuda.empty_cache()
    figures.finish()


if __name__ == "__main__":
    main()
