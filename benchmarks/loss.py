"""The chunked objective beside the whole one: time, memory, and in 16 bits the worth of FP32 logits.

    python -m benchmarks.loss                                  # small sizes that a laptop holds
    python -m benchmarks.loss --tokens 32768 --hidden 2560     # the real shape, for a GPU
    python -m benchmarks.loss --dtype bfloat16 --hidden 2560   # logits in FP32 and rounded to BF16

Every case runs in a process of its own, whose peak memory is that case's alone: what is allocated on the GPU, or what the
process holds. `above` is the peak above the inputs (student, teacher, output layer, targets), the gradient included.

In 16 bits the form `rounded` is the chunked one with logits and gradient rounded to 16 bits behind
their products. The objective does not round them. Errors of both forms are relative to FP64 on the
same 16-bit numbers. Logits have a standard deviation of 4, and the teacher is close to the student.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

from benchmarks.figures import Bar, Figures
from stair.records.interruption import end_with_parent

LIMIT_GIB = 2.0


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--tokens", type=int, default=2048)
    options.add_argument("--whole-tokens", type=int, default=512, help="tokens at which both forms are timed")
    options.add_argument("--vocabulary", type=int, default=151_936)
    options.add_argument("--hidden", type=int, default=256)
    options.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--error-tokens", type=int, default=64, help="tokens at which errors are measured, in 16 bits")
    options.add_argument("--device", choices=["cpu", "cuda"], help="where it runs (a GPU where there is one)")
    Figures.add_argument(options)
    options.add_argument("--one", choices=["chunked", "whole", "rounded", "errors"], help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.one == "errors":
        print(json.dumps(errors(chosen)))
        return
    if chosen.one:
        print(json.dumps(measure(chosen)))
        return
    print(f"vocabulary {chosen.vocabulary}, hidden {chosen.hidden}, {chosen.dtype}, forward and backward")
    narrow = chosen.dtype == "bfloat16"
    forms = ("whole", "chunked", "rounded") if narrow else ("whole", "chunked")
    figures = Figures(chosen.json)
    where = f"{chosen.vocabulary:,} x {chosen.hidden:,}, {chosen.dtype}"
    with figures.case(f"{where}, {chosen.whole_tokens:,} tokens"):
        times = {form: run(chosen, form, chosen.whole_tokens) for form in forms}
        for form, timing in times.items():
            print(
                f"{form:8} {chosen.whole_tokens:6} tokens: {timing['seconds']:.2f} s, {timing['gib']:.2f} GiB above the inputs"
            )
            figures.add(f"{where}, {form}, {chosen.whole_tokens:,} tokens", timing["seconds"], "s")
            figures.add(f"{where}, {form}, {chosen.whole_tokens:,} tokens: above the inputs", timing["gib"], "GiB")
        ratio = times["chunked"]["seconds"] / times["whole"]["seconds"]
        print(f"time, chunked to whole: {ratio:.2f}")
        figures.add(f"{where}: chunked over whole", ratio, "x")
        if narrow:
            ratio = times["chunked"]["seconds"] / times["rounded"]["seconds"]
            print(f"time, FP32 logits to rounded ones: {ratio:.2f}")
            figures.add(f"{where}: FP32 logits over rounded ones", ratio, "x")
    if narrow:
        with figures.case(f"{where}, errors over {chosen.error_tokens:,} tokens"):
            for name, error in run(chosen, "errors", chosen.error_tokens).items():
                print(f"relative error, {name}: {error:.1e}")
                figures.add(f"{where}, relative error, {name}", error, "")
    with figures.case(f"{where}, {chosen.tokens:,} tokens"):
        timing = run(chosen, "chunked", chosen.tokens)
        print(
            f"chunked  {chosen.tokens:6} tokens: {timing['seconds']:.2f} s, {timing['gib']:.2f} GiB above the inputs "
            f"(limit {LIMIT_GIB}), {timing['device']}"
        )
        figures.add(f"{where}, chunked, {chosen.tokens:,} tokens", timing["seconds"], "s")
        name = f"{where}, chunked, {chosen.tokens:,} tokens: above the inputs"
        figures.add(name, timing["gib"], "GiB", Bar(LIMIT_GIB))
    figures.finish()


def run(chosen: argparse.Namespace, form: str, tokens: int) -> dict[str, float]:
    """One case in a process of its own."""
    words = [sys.executable, "-m", "benchmarks.loss", "--one", form, "--tokens", str(tokens)]
    for name in ("vocabulary", "hidden", "dtype", "threads"):
        words += [f"--{name}", str(getattr(chosen, name))]
    words += ["--device", chosen.device] if chosen.device else []
    done = subprocess.run(words, capture_output=True, text=True, check=False, preexec_fn=end_with_parent)
    if done.returncode:
        raise RuntimeError(f"{form} at {tokens} tokens: exit status {done.returncode}\n{done.stderr.strip()}")
    timing: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return timing


def measure(chosen: argparse.Namespace) -> dict[str, float | str]:
    """The better of two passes (one where it is long), and their peak."""
    import torch

    from stair.stages.training.objective import response_objective, response_objective_naive

    student, teacher, head, targets = inputs(chosen)
    device = student.device.type
    if chosen.one == "rounded":
        round_products()
    function = response_objective_naive if chosen.one == "whole" else response_objective
    peak = Peak(device)
    # On the CPU the process's own time, which other work on the machine disturbs less.
    clock = time.perf_counter if device == "cuda" else time.process_time
    seconds = []
    for _ in range(2 if chosen.tokens <= 4096 or device == "cuda" else 1):
        student.grad = None
        if device == "cuda":
            torch.cuda.synchronize()
        begun = clock()
        function(student, teacher, head, targets).loss.backward()
        if device == "cuda":
            torch.cuda.synchronize()
        seconds.append(clock() - begun)
    name = torch.cuda.get_device_name() if device == "cuda" else f"CPU, {chosen.threads} thread"
    return {"seconds": min(seconds), "gib": peak.above() / 2**30, "device": name}


def inputs(chosen: argparse.Namespace) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Student, teacher, output layer and targets."""
    import torch

    torch.set_num_threads(chosen.threads)
    device = chosen.device or ("cuda" if torch.cuda.is_available() else "cpu")
    dtype = getattr(torch, chosen.dtype)
    generator = torch.Generator(device).manual_seed(0)
    student, teacher, head = (
        torch.randn(rows, chosen.hidden, generator=generator, device=device, dtype=dtype)
        for rows in (chosen.tokens, chosen.tokens, chosen.vocabulary)
    )
    teacher.mul_(0.05).add_(student)
    head *= 4 * chosen.hidden**-0.5
    targets = torch.randint(0, chosen.vocabulary, (chosen.tokens,), generator=generator, device=device)
    return student.requires_grad_(), teacher, head, targets


def round_products() -> None:
    """Let the objective's products leave in the precision of what is multiplied."""
    from stair.stages.training import objective

    objective._logits = lambda states, head: (states @ head.T).float()
    objective._states = lambda slope, head: (slope @ head).float()


def errors(chosen: argparse.Namespace) -> dict[str, float]:
    """Relative errors of loss, divergence and gradient against FP64, by form."""
    from stair.stages.training.objective import response_objective

    student, teacher, head, targets = inputs(chosen)

    def values(student: Tensor, teacher: Tensor, head: Tensor) -> dict[str, Tensor]:
        leaf = student.detach().requires_grad_()
        parts = response_objective(leaf, teacher, head, targets)
        parts.loss.backward()
        assert leaf.grad is not None
        return {"loss": parts.loss.detach().double(), "divergence": parts.kl.double(), "gradient": leaf.grad.double()}

    exact = values(student.double(), teacher.double(), head.double())
    errors_by_name = {}
    for form in ("FP32 logits", "rounded logits"):
        if form == "rounded logits":
            round_products()
        for name, value in values(student, teacher, head).items():
            errors_by_name[f"{form}, {name}"] = float((value - exact[name]).norm() / exact[name].norm())
    return errors_by_name


class Peak:
    """The most memory held since it was made, above what was held then."""

    def __init__(self, device: str) -> None:
        import torch

        self._cuda, self._torch = device == "cuda", torch
        self._start = torch.cuda.memory_allocated() if self._cuda else self._resident()
        self._most, self._over = self._start, False
        if self._cuda:
            torch.cuda.reset_peak_memory_stats()
        else:
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()

    def _watch(self) -> None:
        while not self._over:
            self._most = max(self._most, self._resident())
            time.sleep(0.002)

    @staticmethod
    def _resident() -> float:
        """Bytes that the process holds; NaN without Linux's /proc."""
        pages = Path("/proc/self/statm")
        return int(pages.read_text().split()[1]) * float(resource.getpagesize()) if pages.exists() else math.nan

    def above(self) -> float:
        """Bytes."""
        if self._cuda:
            return float(self._torch.cuda.max_memory_allocated() - self._start)
        self._over = True
        self._thread.join()
        return self._most - self._start


if __name__ == "__main__":
    main()
