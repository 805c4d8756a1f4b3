"""Measure the differential read beside one ordinary attention read of the same bank, and hold it to its bars.

    python -m benchmarks.read                     on the CPU, one thread, float32; about half an hour
    python -m benchmarks.read --device cuda       on a GPU, bfloat16, forward and backward, and the added prefill
    python -m benchmarks.read --device cuda --tune    every candidate tile of the kernels

Every number is a ratio to `scaled_dot_product_attention` (on CUDA its flash backend) on the same tensors in the same round;
rounds alternate and the fastest of each counts. Prints a table, writes it with --out, ends with status 1 when a bar is missed:
CPU forward 2.2; GPU forward 2.0, forward and backward 2.5; peak memory without a term in tokens x bank. `prefill` is what the
controlled layers of a whole model with random weights add to the prompt of one question.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks import one_pass
from benchmarks.figures import Bar, Figures
from benchmarks.models import SHAPES as MODELS
from benchmarks.models import controlled_layers
from stair.method import differential_read
from stair.method.reads import naive, streaming
from stair.method.reads.naive import unit_normals
from stair.records.text_tables import csv_table
from stair.stages.runtime.shapes import random_model

if TYPE_CHECKING:
    from stair.method.reads import fused

SHAPES = {"qwen3-4b": (32, 8, 128), "qwen3.5-4b": (16, 4, 256)}  # query heads, K/V heads, head dim
BANKS = (2_048, 8_192, 32_768, 80_700)
PROMPTS = (64, 256, 1024)
BARS = {("cpu", "forward"): 2.2, ("cuda", "forward"): 2.0, ("cuda", "both"): 2.5}
TARGET = 1.8
"""A forward read on a GPU: what the project aims at."""
PREFILL_TARGET_MS = 15.0
NAIVE_LIMIT = 2 << 30
MOST_ROUNDS = 50


@dataclass(frozen=True)
class Row:
    """One measurement: seconds, the ratio to attention, and the peak of memory beyond what was there before, in MiB."""

    shape: str
    bank: int
    tokens: int
    form: str
    part: str
    seconds: float
    ratio: float
    extra_mib: float

    def report(self, figures: Figures, device: str) -> None:
        where = f"{self.shape}, bank {self.bank:,}, {self.tokens} tokens, {self.form}, {self.part}"
        bars = []
        if self.form == "two passes":
            limit = BARS.get((device, self.part))
            bars += [Bar(limit)] if limit is not None else []
            bars += [Bar(TARGET, target=True)] if (device, self.part) == ("cuda", "forward") else []
        note = f"{self.seconds * 1e3:.3f} ms, +{self.extra_mib:.1f} MiB"
        figures.add(where, self.ratio, "x attention", *bars, note=note)


class Meter:
    """Time and peak memory of a call on one device."""

    def __init__(self, device: str) -> None:
        self.device = device

    def seconds(self, call: Callable[[], object], repeats: int = 1) -> float:
        """Wall time on CUDA; on the CPU the process's own time, which other work on the machine disturbs less."""
        clock = time.perf_counter if self.device == "cuda" else time.process_time
        self._wait()
        start = clock()
        for _ in range(repeats):
            call()
        self._wait()
        return (clock() - start) / repeats

    def repeats(self, call: Callable[[], object]) -> int:
        """How many calls to time together: on CUDA up to 5 ms of them, so that the wait for the device weighs little."""
        return max(1, min(20, int(5e-3 / self.seconds(call)))) if self.device == "cuda" else 1

    def extra_mib(self, call: Callable[[], object]) -> float:
        """Peak of memory during the call beyond its start; on the CPU of the whole process, from Linux's own high-water mark."""
        if self.device == "cuda":
            self._wait()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            call()
            self._wait()
            return (torch.cuda.max_memory_allocated() - before) / 2**20
        clear = Path("/proc/self/clear_refs")
        if not clear.exists():
            return float("nan")
        clear.write_text("5")
        before = self._status("VmRSS")
        call()
        return (self._status("VmHWM") - before) / 1024

    def _status(self, field: str) -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(field))

    def _wait(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()


@dataclass(frozen=True)
class Inputs:
    queries: Tensor
    keys: Tensor
    values: Tensor
    normals: Tensor

    @classmethod
    def random(cls, shape: str, bank: int, tokens: int, device: str, dtype: torch.dtype) -> Inputs:
        heads, kv_heads, head_dim = SHAPES[shape]
        torch.manual_seed(0)
        sizes = ((1, heads, tokens, head_dim), (1, kv_heads, bank, head_dim), (1, kv_heads, bank, head_dim))
        queries, keys, values = (torch.randn(*size, device=device).to(dtype) for size in sizes)
        return cls(queries, keys, values, torch.randn(heads, head_dim, device=device))


def forward_calls(inputs: Inputs, device: str) -> dict[str, Callable[[], Tensor]]:
    """The attention read first, then every form of the differential read."""
    tensors = (inputs.queries, inputs.keys, inputs.values)

    def attention() -> Tensor:
        with flash(device):
            return F.scaled_dot_product_attention(*tensors, enable_gqa=True)

    calls = {"attention": attention, "two passes": lambda: differential_read(*tensors, inputs.normals)}
    if device == "cuda":
        from benchmarks import one_pass_kernel

        calls["one pass"] = lambda: one_pass_kernel.read(*tensors, inputs.normals, smoothing=1e-6)
    else:
        calls["one pass"] = lambda: one_pass.read(*tensors, inputs.normals, smoothing=1e-6)
    if naive_bytes(inputs) <= NAIVE_LIMIT:
        calls["naive"] = lambda: naive_by_head(inputs)
    return calls


@contextmanager
def flash(device: str) -> Iterator[None]:
    if device == "cuda":
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            yield
    else:
        yield


def naive_bytes(inputs: Inputs) -> int:
    """What the naive form holds at once for one head: about six matrices of tokens x bank."""
    return 6 * inputs.queries.shape[2] * inputs.keys.shape[2] * inputs.queries.element_size()


def naive_by_head(inputs: Inputs) -> Tensor:
    groups = inputs.queries.shape[1] // inputs.keys.shape[1]
    units = unit_normals(inputs.normals, inputs.queries.dtype)
    out = torch.empty_like(inputs.queries)
    for head in range(inputs.queries.shape[1]):
        bank = (inputs.keys[0, [head // groups]], inputs.values[0, [head // groups]])
        out[0, [head]] = naive.read_row(
            inputs.queries[0, [head]], *bank, units[[head]], smoothing=1e-6, variant="differential"
        )
    return out


def both_calls(inputs: Inputs, device: str) -> dict[str, Callable[[], object]]:
    """Forward and backward: gradients of the queries, for the differential read of the normals too."""
    gradient = torch.randn_like(inputs.queries)

    def attention() -> None:
        queries = inputs.queries.detach().requires_grad_()
        with flash(device):
            F.scaled_dot_product_attention(queries, inputs.keys, inputs.values, enable_gqa=True).backward(gradient)

    def differential() -> None:
        queries, normals = inputs.queries.detach().requires_grad_(), inputs.normals.detach().requires_grad_()
        differential_read(queries, inputs.keys, inputs.values, normals).backward(gradient)

    return {"attention": attention, "two passes": differential}


def measure(
    calls: dict[str, Callable[[], object]], meter: Meter, rounds: int, least_seconds: float
) -> dict[str, tuple[float, float]]:
    """(fastest seconds, extra MiB) of each call; the naive form, far slower, is measured once.

    Short calls get more rounds: a shared machine's speed changes within seconds.
    """
    memory = {name: meter.extra_mib(call) for name, call in calls.items()}  # and warms up
    repeats = {name: meter.repeats(call) for name, call in calls.items()}
    fastest = dict.fromkeys(calls, float("inf"))
    turn, begun = 0, time.perf_counter()
    while turn < rounds or (time.perf_counter() - begun < least_seconds and turn < MOST_ROUNDS):
        for name, call in calls.items():
            if name != "naive" or turn == 0:
                fastest[name] = min(fastest[name], meter.seconds(call, repeats[name]))
        turn += 1
    return {name: (fastest[name], memory[name]) for name in calls}


def run(arguments: argparse.Namespace, figures: Figures) -> list[Row]:
    rows: list[Row] = []
    for shape, bank, tokens in itertools.product(arguments.shapes, arguments.banks, arguments.prompts):
        with figures.case(f"{shape}, bank {bank:,}, {tokens} tokens"):
            rows += measured(arguments, shape, bank, tokens, figures)
    return rows


def measured(arguments: argparse.Namespace, shape: str, bank: int, tokens: int, figures: Figures) -> list[Row]:
    """The rows of one size."""
    device, rows = arguments.device, []
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    inputs = Inputs.random(shape, bank, tokens, device, dtype)
    parts: dict[str, dict[str, Callable[[], object]]] = {"forward": dict(forward_calls(inputs, device))}
    if arguments.no_naive:
        parts["forward"].pop("naive", None)
    if device == "cuda" or arguments.backward:
        parts["both"] = both_calls(inputs, device)
    for part, calls in parts.items():
        timings = measure(calls, Meter(device), arguments.rounds, arguments.least_seconds)
        base = timings["attention"][0]
        for form, (seconds, extra) in timings.items():
            rows.append(Row(shape, bank, tokens, form, part, seconds, seconds / base, extra))
            show(rows[-1])
            rows[-1].report(figures, device)
    if naive_bytes(inputs) > NAIVE_LIMIT:
        print(f"{shape:11} {bank:6} {tokens:5}  naive        skipped: one head would hold more than 2 GiB")
    return rows


def show(row: Row) -> None:
    print(
        f"{row.shape:11} {row.bank:6} {row.tokens:5}  {row.form:11} {row.part:8} "
        f"{row.seconds * 1e3:10.2f} ms  ratio {row.ratio:5.2f}  +{row.extra_mib:8.1f} MiB",
        flush=True,
    )


def missed_bars(rows: list[Row], device: str, figures: Figures) -> list[str]:
    """One line for each bar that a measurement misses."""
    missed = []
    for row in rows:
        bar = BARS.get((device, row.part))
        if row.form == "two passes" and bar is not None and row.ratio > bar:
            missed.append(f"{row.shape} bank {row.bank} tokens {row.tokens} {row.part}: {row.ratio:.2f} is above {bar}")
    two_passes = [row for row in rows if row.form == "two passes"]
    for shape, part in sorted({(row.shape, row.part) for row in two_passes}):
        memory = {(row.tokens, row.bank): row.extra_mib for row in two_passes if (row.shape, row.part) == (shape, part)}
        (few, short), (many, long) = min(memory), max(memory)
        if few == many or short == long:
            continue
        # What is left when the growth with tokens alone and with the bank alone is taken off.
        joint = memory[many, long] - memory[many, short] - memory[few, long] + memory[few, short]
        matrix = many * long * 4 / 2**20
        print(
            f"{shape} {part}: memory's joint term {joint:.1f} MiB; one head's tokens x bank matrix is {matrix:.0f} MiB"
        )
        # The powers kept between two passes grow with both up to a fixed limit, which a small grid lies below.
        allowed = max(0.1 * matrix, streaming.CPU_TILES.kept / 2**21)
        figures.add(
            f"{shape}, {part}: memory in tokens x bank", joint, "MiB", Bar(allowed), note=f"matrix {matrix:.0f} MiB"
        )
        if joint > allowed:
            missed.append(f"{shape} {part}: extra memory grows with tokens x bank ({joint:.0f} MiB)")
    return missed


def prefill(arguments: argparse.Namespace, name: str, figures: Figures) -> None:
    """The prefill that the controlled layers of a model with random weights add for one question."""
    from stair.method import Attachment, Bank, Read, Reflector, Segment

    device, layers = arguments.device, controlled_layers(name)
    entries, context, question = arguments.prefill_sizes
    model = random_model(MODELS[name], device, torch.bfloat16 if device == "cuda" else torch.float32)
    attachment = Attachment(model, layers)
    shape = attachment.architecture
    states = torch.randn(2, len(layers), shape.kv_heads, entries, shape.head_dim).to(model.dtype)
    bank = Bank(layers, [Segment(layers, *states)])
    bank.pin()
    reflector = Reflector.draw(layers, shape.query_heads, shape.head_dim, seed=0).to(device)
    control = Read(bank, reflector, (context - question, context))
    ids = torch.randint(0, shape.vocabulary, (1, context), device=device)

    def native() -> None:
        with torch.inference_mode():
            model(ids, attention_mask=torch.ones_like(ids), logits_to_keep=1)

    def controlled() -> None:
        with attachment.controlling([control], torch.arange(context)[None]):
            native()

    def transfer() -> None:
        bank.release()
        bank.resident(ids.device, model.dtype, attachment.rotary)

    def overlapped() -> None:
        bank.release()
        controlled()

    calls = {"native": native, "controlled": controlled, "transfer": transfer, "overlapped": overlapped}
    timings = measure(dict(calls), Meter(device), arguments.rounds, arguments.least_seconds)
    base = timings["native"][0]
    print(f"prefill of {context} tokens, question of {question}, bank of {entries}, {name} with random weights:")
    where = f"{name}, prefill of {context:,} tokens, question of {question}, bank {entries:,}"
    for form, (seconds, extra) in timings.items():
        print(f"  {form:11} {seconds * 1e3:8.1f} ms  +{extra:8.1f} MiB")
        figures.add(f"{where}: {form}", seconds * 1e3, "ms", note=f"+{extra:.1f} MiB")
    added = {form: (timings[form][0] - base) * 1e3 for form in ("controlled", "overlapped")}
    print(
        f"  added by the read {added['controlled']:.1f} ms (paper, A800: 567 ms; target on an H200: {PREFILL_TARGET_MS} ms)"
    )
    print(f"  added with the bank's transfer beside the first layers {added['overlapped']:.1f} ms")
    target = Bar(PREFILL_TARGET_MS, target=True)
    figures.add(f"{where}: added by the read", added["controlled"], "ms", target, note="paper, A800: 567 ms")
    figures.add(f"{where}: added by read and transfer", added["overlapped"], "ms", target)


def tune(arguments: argparse.Namespace) -> None:
    """Time candidate launches of each pass of the fused read at the longest bank; the backward with its forward."""
    from stair.method.reads import fused

    bank = max(arguments.banks)
    for shape in arguments.shapes:
        inputs = Inputs.random(shape, bank, 256, "cuda", torch.bfloat16)
        chosen = fused.choose_launches(SHAPES[shape][2], 2, fused.shared_memory(inputs.queries))
        for name in ("normalisers", "read", "backward"):
            for tile in itertools.product((64, 128), (32, 64, 128), (4, 8), (1, 2, 3, 4)):
                launches = replace(chosen, **{name: fused.Launch(*tile)})
                try:
                    outcome = f"{time_launches(inputs, launches, backward=name == 'backward') * 1e3:.2f} ms"
                except Exception as error:  # a tile that does not fit the device is an outcome, not the end
                    outcome = str(error).splitlines()[0][:80]
                print(shape, name, "tokens, entries, warps, stages", tile, outcome, flush=True)


def time_launches(inputs: Inputs, launches: fused.Launches, *, backward: bool) -> float:
    from stair.method.reads import fused

    def call() -> None:
        queries = inputs.queries.detach().requires_grad_()
        out = fused.read(
            queries,
            inputs.keys,
            inputs.values,
            inputs.normals,
            [inputs.keys.shape[2]],
            smoothing=1e-6,
            variant="differential",
            value_order=None,
            launches=launches,
        )
        if backward:
            out.backward(inputs.queries)

    meter = Meter("cuda")
    meter.seconds(call)
    return min(meter.seconds(call) for _ in range(5))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--shapes", nargs="+", choices=list(SHAPES), default=list(SHAPES))
    parser.add_argument("--banks", nargs="+", type=int, default=list(BANKS), help="entries")
    parser.add_argument("--prompts", nargs="+", type=int, default=list(PROMPTS), help="tokens")
    parser.add_argument("--rounds", type=int, default=5, help="at least so many of each call")
    parser.add_argument("--least-seconds", type=float, default=6.0, help="and more until so much time is used")
    parser.add_argument(
        "--prefill", nargs="*", choices=list(MODELS), help="models (Qwen3.5-4B on a GPU, none on a CPU)"
    )
    parser.add_argument(
        "--prefill-sizes", nargs=3, type=int, default=(80_700, 4096, 250), metavar=("BANK", "PROMPT", "QUESTION")
    )
    parser.add_argument("--threads", type=int, default=1, help="CPU threads")
    parser.add_argument("--backward", action="store_true", help="measure the backward on the CPU too (no bar)")
    parser.add_argument("--no-naive", action="store_true", help="leave the naive form out: it takes most of the time")
    parser.add_argument("--tune", action="store_true", help="CUDA: time every candidate tile instead")
    parser.add_argument("--out", type=Path, help="write the table as CSV")
    Figures.add_argument(parser)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: there is no CUDA device here")
    if arguments.tune:
        tune(arguments)
        return 0
    figures = Figures(arguments.json)
    rows = run(arguments, figures)
    models = arguments.prefill if arguments.prefill is not None else ["qwen3.5-4b"] * (arguments.device == "cuda")
    for name in models:
        with figures.case(f"{name}, prefill"):
            prefill(arguments, name, figures)
    if arguments.out is not None:
        columns = list(Row.__dataclass_fields__)
        arguments.out.write_text(csv_table(columns, ([getattr(row, name) for name in columns] for row in rows)))
    missed = missed_bars(rows, arguments.device, figures)
    figures.finish()
    print("\n".join(missed) if missed else "every bar is met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
