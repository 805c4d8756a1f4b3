"""Several sessions in one pass, or compiled layers: tokens per second of a turn's passes beside one row's.

    python -m benchmarks.passes                    # a small model, for a CPU
    python -m benchmarks.passes --device cuda      # Qwen3-4B's shape, in BF16

`teacher` is a forward pass, `student` the same with its backward pass to the first controlled layer, in which nothing runs
again. Both are the backbone's, without reads and the objective, over whole rows of equal lengths. So the speed of several
rows is an upper bound of packed sessions. That of compiled layers is one too: behind a cached prefix each layer would
have a graph of its own.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

from benchmarks.figures import Figures
from benchmarks.models import SHAPES, controlled_layers


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    options.add_argument("--shape", choices=SHAPES, help="qwen3-4b-instruct on a GPU, else tiny-qwen3")
    options.add_argument("--tokens", type=int, default=2048, help="of the response")
    options.add_argument("--rows", type=int, nargs="+", default=[1, 2, 4])
    options.add_argument("--rounds", type=int, default=3, help="each time is the least of so many, after a first pass")
    options.add_argument("--backend", default="inductor", help="of torch.compile")
    Figures.add_argument(options)
    chosen = options.parse_args()
    shape = chosen.shape or ("qwen3-4b-instruct" if chosen.device == "cuda" else "tiny-qwen3")
    figures = Figures(chosen.json)
    import torch

    from stair.stages.runtime.shapes import random_model

    dtype = torch.bfloat16 if chosen.device == "cuda" else torch.float32
    model = random_model(SHAPES[shape], chosen.device, dtype, "sdpa")
    layers = model.get_decoder().layers
    # A graph begins where the first controlled layer does.
    layers[controlled_layers(shape)[0]].register_forward_pre_hook(
        lambda layer, inputs: (inputs[0].detach().requires_grad_(), *inputs[1:])
    )
    ids = torch.randint(0, 1000, (max(chosen.rows), chosen.tokens), generator=torch.Generator().manual_seed(0))
    ids = ids.to(chosen.device)

    def forward(rows: int) -> torch.Tensor:
        mask = torch.ones_like(ids[:rows])
        hidden: torch.Tensor = model.get_decoder()(ids[:rows], attention_mask=mask, use_cache=False).last_hidden_state
        return hidden

    def teacher(rows: int) -> None:
        with torch.no_grad():
            forward(rows)

    def student(rows: int) -> None:
        forward(rows).float().sum().backward()

    one: dict[str, float] = {}

    def measure(rows: int, compiled: bool) -> None:
        kind = f"{rows} rows" if rows > 1 else "one row" + (", compiled layers" if compiled else "")
        for name, work in (("teacher", teacher), ("student", student)):
            first, least = seconds(partial(work, rows), chosen.rounds, chosen.device)
            rate = rows * chosen.tokens / least
            one.setdefault(name, rate)
            where = f"{shape}, {chosen.tokens:,} tokens, {kind}: {name}"
            print(f"{where:66} {rate:10,.0f} tokens/s, first pass {first:.2f} s", flush=True)
            figures.add(where, rate, "tokens/s", note=f"{least:.4f} s a pass; the first one {first:.2f} s")
            figures.add(f"{where} over one row", rate / one[name], "x")

    for rows in chosen.rows:
        with figures.case(f"{rows} rows"):
            measure(rows, compiled=False)
    with figures.case("compiled layers"):
        for layer in layers:
            layer.forward = torch.compile(layer.forward, dynamic=True, backend=chosen.backend)
        measure(1, compiled=True)
    figures.finish()


def seconds(work: Callable[[], None], rounds: int, device: str) -> tuple[float, float]:
    """Seconds of the first call, and the least of the others."""
    import torch

    spent = []
    for _ in range(1 + rounds):
        begun = time.perf_counter()
        work()
        if device == "cuda":
            torch.cuda.synchronize()
        spent.append(time.perf_counter() - begun)
    return spent[0], min(spent[1:])


if __name__ == "__main__":
    main()
