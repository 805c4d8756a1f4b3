"""The chunked objective beside the whole one: time, and memory above the inputs.

    python benchmarks/loss.py                                  # small sizes that a laptop holds
    python benchmarks/loss.py --tokens 32768 --hidden 2560     # the real shape, for a GPU

Every case runs in a process of its own, whose peak memory is that case's alone: what is allocated on the GPU, or what the
process holds. `above` is the peak above the inputs (student, teacher, output layer, targets), the gradient included.
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

from benchmarks.figures import Bar, Figures

LIMIT_GIB = 2.0


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--tokens", type=int, default=2048)
    options.add_argument("--whole-tokens", type=int, default=512, help="tokens at which both forms are timed")
    options.add_argument("--vocabulary", type=int, default=151_936)
    options.add_argument("--hidden", type=int, default=256)
    options.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--device", choices=["cpu", "cuda"], help="where it runs (a GPU where there is one)")
    Figures.add_argument(options)
    options.add_argument("--one", choices=["chunked", "whole"], help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.one:
        print(json.dumps(measure(chosen)))
        return
    print(f"vocabulary {chosen.vocabulary}, hidden {chosen.hidden}, {chosen.dtype}, forward and backward")
    figures = Figures(chosen.json)
    where = f"{chosen.vocabulary:,} x {chosen.hidden:,}, {chosen.dtype}"
    with figures.case(f"{where}, {chosen.whole_tokens:,} tokens"):
        both = {form: run(chosen, form, chosen.whole_tokens) for form in ("whole", "chunked")}
        for form, found in both.items():
            print(
                f"{form:8} {chosen.whole_tokens:6} tokens: {found['seconds']:.2f} s, {found['gib']:.2f} GiB above the inputs"
            )
            figures.add(f"{where}, {form}, {chosen.whole_tokens:,} tokens", found["seconds"], "s")
            figures.add(f"{where}, {form}, {chosen.whole_tokens:,} tokens: above the inputs", found["gib"], "GiB")
        ratio = both["chunked"]["seconds"] / both["whole"]["seconds"]
        print(f"time, chunked to whole: {ratio:.2f}")
        figures.add(f"{where}: chunked over whole", ratio, "x")
    with figures.case(f"{where}, {chosen.tokens:,} tokens"):
        found = run(chosen, "chunked", chosen.tokens)
        print(
            f"chunked  {chosen.tokens:6} tokens: {found['seconds']:.2f} s, {found['gib']:.2f} GiB above the inputs "
            f"(limit {LIMIT_GIB}), {found['device']}"
        )
        figures.add(f"{where}, chunked, {chosen.tokens:,} tokens", found["seconds"], "s")
        name = f"{where}, chunked, {chosen.tokens:,} tokens: above the inputs"
        figures.add(name, found["gib"], "GiB", Bar(LIMIT_GIB))
    figures.finish()


def run(chosen: argparse.Namespace, form: str, tokens: int) -> dict[str, float]:
    """One case in a process of its own."""
    words = [sys.executable, str(Path(__file__)), "--one", form, "--tokens", str(tokens)]
    for name in ("vocabulary", "hidden", "dtype", "threads"):
        words += [f"--{name}", str(getattr(chosen, name))]
    words += ["--device", chosen.device] if chosen.device else []
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{form} at {tokens} tokens: exit status {done.returncode}\n{done.stderr.strip()}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(chosen: argparse.Namespace) -> dict[str, float | str]:
    """The better of two passes (one where it is long), and their peak."""
    import torch

    from stair.training.objective import response_objective, response_objective_naive

    torch.set_num_threads(chosen.threads)
    device = chosen.device or ("cuda" if torch.cuda.is_available() else "cpu")
    dtype = getattr(torch, chosen.dtype)
    generator = torch.Generator(device).manual_seed(0)
    student, teacher, head = (
        torch.randn(rows, chosen.hidden, generator=generator, device=device, dtype=dtype)
        for rows in (chosen.tokens, chosen.tokens, chosen.vocabulary)
    )
    head *= chosen.hidden**-0.5
    targets = torch.randint(0, chosen.vocabulary, (chosen.tokens,), generator=generator, device=device)
    student.requires_grad_()
    function = response_objective if chosen.one == "chunked" else response_objective_naive
    peak = Peak(device)
    seconds = []
    for _ in range(2 if chosen.tokens <= 4096 or device == "cuda" else 1):
        student.grad = None
        if device == "cuda":
            torch.cuda.synchronize()
        begun = time.monotonic()
        function(student, teacher, head, targets).loss.backward()
        if device == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.monotonic() - begun)
    name = torch.cuda.get_device_name() if device == "cuda" else f"CPU, {chosen.threads} thread"
    return {"seconds": min(seconds), "gib": peak.above() / 2**30, "device": name}


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
