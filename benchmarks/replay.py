"""A history's problems behind one shared prefix: time beside whole prompts and beside no probes, peak memory.

    python -m benchmarks.replay                    # two layers of the replayed model's width, for a CPU
    python -m benchmarks.replay --shapes qwen3_5 --hidden 1024 --layers 5 --measured 3
    python -m benchmarks.replay --device cuda --shapes qwen3-4b-instruct qwen3.5-4b --measured 3    # in BF16

Random weights. `shared` is the prefix's pass and the batch's pass with probes. `whole` is as many plain
passes over whole prompts as there are problems; one is timed. Probes come on top of the plain passes of
prefix and batch, or of the batch alone where the prefix serves a further batch. The layers that
`--measured` gives also have their reads and the next block's MLP output. On a CPU, times are the
process's own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.figures import Bar, Figures
from stair.records.interruption import end_with_parent

MOST_OF_WHOLE, MOST_PROBES = 1 / 5, 0.15
SMALL = ("qwen3", "qwen3_5")
"""Both architectures at the sizes that --hidden, --head-dim, --layers and --vocabulary give."""
REAL = ("qwen3-4b-instruct", "qwen3.5-4b", "qwen3.5-9b")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    options.add_argument("--shapes", nargs="+", choices=[*SMALL, *REAL], default=["qwen3"])
    options.add_argument("--prefix", type=int, default=3000, help="tokens of the history")
    options.add_argument("--problems", type=int, default=16)
    options.add_argument("--tokens", type=int, default=200, help="of a problem's turn")
    options.add_argument("--measured", type=int, nargs="*", default=[0], help="layers with reads")
    options.add_argument("--hidden", type=int, default=2560, help="of the small shapes")
    options.add_argument("--head-dim", type=int, default=128, help="of the small shapes")
    options.add_argument("--layers", type=int, default=2, help="of the small shapes")
    options.add_argument("--vocabulary", type=int, default=1024, help="of the small shapes")
    options.add_argument("--dtype", choices=["float32", "bfloat16"], help="BF16 on a GPU, else FP32")
    options.add_argument(
        "--attention", choices=["auto", "sdpa", "flash_attention_2", "flash_attention_3"], default="auto"
    )
    options.add_argument("--rounds", type=int, default=2, help="each time is the least of so many")
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--no-bars", action="store_true", help="set no limits; for sizes that are too small for them")
    options.add_argument("--one", metavar="SHAPE", help=argparse.SUPPRESS)
    Figures.add_argument(options)
    chosen = options.parse_args()
    chosen.dtype = chosen.dtype or ("bfloat16" if chosen.device == "cuda" else "float32")
    if chosen.one:
        print(json.dumps(measure(chosen, chosen.one)))
        return
    figures = Figures(chosen.json)
    for shape in chosen.shapes:
        with figures.case(shape):
            record(shape, chosen, run(chosen, shape), figures)
    figures.finish()


def run(chosen: argparse.Namespace, shape: str) -> dict[str, Any]:
    """One shape in a process of its own."""
    words = [sys.executable, "-m", "benchmarks.replay", "--one", shape]
    for name, value in vars(chosen).items():
        if name not in ("one", "json", "shapes", "no_bars"):
            words += [f"--{name.replace('_', '-')}", *map(str, value if isinstance(value, list) else [value])]
    done = subprocess.run(words, capture_output=True, text=True, check=False, preexec_fn=end_with_parent)
    if done.returncode:
        raise RuntimeError(f"exit status {done.returncode}\n{done.stderr.strip()}")
    measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return measured


def record(shape: str, chosen: argparse.Namespace, measured: dict[str, Any], figures: Figures) -> None:
    """Print and record what was measured."""
    size = f", hidden {chosen.hidden}, {chosen.layers} layers" if shape in SMALL else ""
    where = (
        f"{shape}{size}, {chosen.dtype}, {measured['attention']}, {chosen.problems} problems of {chosen.tokens} behind "
        f"{chosen.prefix:,} tokens"
    )
    seconds = measured["seconds"]
    print(where)
    for part, lasted in seconds.items():
        print(f"  {part:28} {lasted:8.3f} s")
        figures.add(f"{where}: {part}", lasted, "s")
    whole = (seconds["prefix"] + seconds["batch with probes"]) / (chosen.problems * seconds["one whole prompt"])
    spent = seconds["batch with probes"] - seconds["batch"]
    probes = spent / (seconds["prefix"] + seconds["batch"])
    behind = spent / seconds["batch"]
    print(
        f"  shared over whole: {whole:.3f}; probes on top of the plain pass: {probes:.1%}, of the batch alone: {behind:.1%}"
    )
    print(f"  memory above the weights: {measured['above'] / 2**20:.0f} MiB")
    bars = not chosen.no_bars
    figures.add(f"{where}: shared over whole", whole, "x", *[Bar(MOST_OF_WHOLE)][:bars])
    figures.add(f"{where}: probes on top of the plain pass", probes, "x", *[Bar(MOST_PROBES)][:bars])
    figures.add(f"{where}: probes on top of a further batch of the same prefix", behind, "x")
    figures.add(f"{where}: memory above the weights", measured["above"] / 2**30, "GiB")


def configuration(chosen: argparse.Namespace, shape: str) -> dict[str, Any]:
    """Keys of the model's config.json. The small shapes have the proportions of the paper's backbones."""
    from stair.models.published import CONFIGS

    if shape in CONFIGS:
        return CONFIGS[shape]
    heads = max(2, chosen.hidden * 8 // 5 // chosen.head_dim)
    sizes = dict(
        hidden_size=chosen.hidden, intermediate_size=chosen.hidden * 19 // 5, num_hidden_layers=chosen.layers,
        head_dim=chosen.head_dim, num_attention_heads=heads - heads % 4 if heads > 4 else heads,
        num_key_value_heads=max(1, heads // 4), vocab_size=chosen.vocabulary, max_position_embeddings=65_536,
        tie_word_embeddings=True,
    )  # fmt: skip
    rope = {"rope_type": "default", "rope_theta": 1e4}
    if shape == "qwen3":
        return sizes | dict(model_type="qwen3", rope_parameters=rope)
    linear = dict(
        model_type="qwen3_5_text", linear_num_key_heads=heads // 2, linear_num_value_heads=heads,
        linear_key_head_dim=chosen.head_dim, linear_value_head_dim=chosen.head_dim,
        rope_parameters={**rope, "partial_rotary_factor": 0.25},
    )  # fmt: skip
    return sizes | linear


def measure(chosen: argparse.Namespace, shape: str) -> dict[str, Any]:
    """Seconds by part, and the peak above the weights in bytes."""
    import torch

    from benchmarks.training import peak_of_tensors
    from stair.models.attention import configured
    from stair.models.prefix import Prefix
    from stair.models.prefix import run as forward
    from stair.stages.replay.measurement.categories import CurrentTurn
    from stair.stages.replay.measurement.probe import Probe, Turns
    from stair.stages.runtime.shapes import random_model

    torch.set_num_threads(chosen.threads)
    config = configuration(chosen, shape)
    model = random_model(config, chosen.device, getattr(torch, chosen.dtype), chosen.attention)
    generator = torch.Generator().manual_seed(0)

    def drawn(count: int) -> tuple[int, ...]:
        return tuple(torch.randint(0, 1000, (count,), generator=generator).tolist())

    history = drawn(chosen.prefix)
    kinds = [(position // 50) % 3 for position in range(chosen.prefix)]
    # Headers and the generation prefix take a few tokens of a turn.
    problems = [CurrentTurn(drawn(chosen.tokens), (3, chosen.tokens - 5)) for _ in range(chosen.problems)]
    turns = Turns.pad(problems, rows=chosen.problems, columns=chosen.tokens, device=chosen.device)
    probe, nothing = Probe(model, chosen.measured), Prefix.empty(model)
    # First, because what libraries allocate once is no part of a pass's time.
    above = peak_of_tensors(chosen.device, lambda: probe.measure(nothing.extended(history), kinds, turns))
    prefix = nothing.extended(history)
    whole = torch.tensor([[*history, *problems[0].ids]], device=chosen.device)
    clock = time.perf_counter if chosen.device == "cuda" else time.process_time

    def least(work: Callable[[], object]) -> float:
        spent = []
        for _ in range(chosen.rounds):
            begun = _now(clock, chosen.device)
            work()
            spent.append(_now(clock, chosen.device) - begun)
        return min(spent)

    with torch.inference_mode():
        seconds = {
            "prefix": least(lambda: nothing.extended(history)),
            "batch": least(lambda: forward(model, turns.ids, prefix.cache(chosen.problems), chosen.prefix)),
            "batch with probes": least(lambda: probe.measure(prefix, kinds, turns)),
            "one whole prompt": least(lambda: forward(model, whole, nothing.cache(1), 0)),
        }
    return {"attention": configured(model), "seconds": seconds, "above": above}


def _now(clock: Callable[[], float], device: str) -> float:
    if device == "cuda":
        import torch

        torch.cuda.synchronize()
    return clock()


if __name__ == "__main__":
    main()
