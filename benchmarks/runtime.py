"""The runtime study's own measurements, without the pipeline: one history of random tokens, random weights (appendix C.4).

    python -m benchmarks.runtime                    # Qwen3.5-4B's reduced shape on the CPU, in seconds
    python -m benchmarks.runtime --device cuda      # the published shape and the paper's median bank, in BF16; a minute

Measures by the code of the stage `runtime` (`stair.stages.runtime.measure`): the bank's construction, then Native, a prefix and
the full bank, each as transfer, prefill of the whole T2 prompt, fixed decode and peak memory. `make reproduce RUN=shapes`
measures every row, model and length. Prints a line a row, medians over the repetitions.
"""

from __future__ import annotations

import argparse
import sys
from statistics import median
from typing import Any

import torch

from benchmarks.figures import Bar, Figures
from stair.core import ReadSpecification
from stair.engines.base import SamplingSettings
from stair.method import Reflector
from stair.models.architecture import describe
from stair.models.published import CONFIGS
from stair.stages.runtime.measure import CONSTRUCTION, NATIVE, Measurer, Method
from stair.stages.runtime.shapes import controlled_layers, random_history, random_model, shape_config

DECODED = 100.0
"""On one H200-class GPU: tokens a second of one sequence."""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    options.add_argument("--model", choices=list(CONFIGS), default="qwen3.5-4b")
    options.add_argument("--entries", type=int, help="of the full bank (80,700; 2,521 on the CPU)")
    options.add_argument("--prefix", type=int, help="entries of the prefix (32,768; 1,024 on the CPU)")
    options.add_argument("--prompt", type=int, help="tokens of the T2 prompt (1,024; 32 on the CPU)")
    options.add_argument("--question", type=int, help="of them, those of the control span (256; 8 on the CPU)")
    options.add_argument("--tokens", type=int, default=32, help="decoded after each prefill")
    options.add_argument("--repetitions", type=int, default=3, help="behind one that warms up")
    options.add_argument("--threads", type=int, default=1, help="CPU threads")
    Figures.add_argument(options)
    chosen = options.parse_args()
    gpu = chosen.device == "cuda"
    if gpu and not torch.cuda.is_available():
        options.error("--device cuda: there is no CUDA device here")
    torch.set_num_threads(chosen.threads)
    entries = chosen.entries or (80_700 if gpu else 2_521)
    prefix = min(chosen.prefix or (32_768 if gpu else 1_024), entries)
    prompt, question = chosen.prompt or (1_024 if gpu else 32), chosen.question or (256 if gpu else 8)
    if question > prompt:
        options.error(f"--question {question}: the question is the end of the prompt, which has {prompt} tokens")
    shape = shape_config(chosen.model, reduced=not gpu)
    facts, layers = describe(shape), controlled_layers(reduced=not gpu)
    history = random_history(
        "random", entries, prompt=prompt, question=question, vocabulary=facts.vocabulary, seed="benchmark"
    )
    method = Method(
        sampling=SamplingSettings(temperature=0.7, top_p=0.8, top_k=20),
        vocabulary=facts.vocabulary,
        stop_ids=(),
        end_of_thinking=None,
        chunk=2_048,
        block=256,
        read=ReadSpecification(),
        prefixes=(prefix,),
        tokens=chosen.tokens,
        warmups=1,
        repetitions=chosen.repetitions,
    )
    figures = Figures(chosen.json)
    with figures.case(f"{chosen.model}, runtime"):
        model = random_model(shape, chosen.device, torch.bfloat16 if gpu else torch.float32)
        measurer = Measurer(model, Reflector.draw(layers, facts.query_heads, facts.head_dim, seed=0), method)
        rows: dict[str, list[dict[str, Any]]] = {}
        for one in measurer.measure(history):
            rows.setdefault(one["row"], []).append(one)
        native = median(one["prefill_s"] for one in rows[NATIVE])
        for row, repetitions in rows.items():
            report(f"{chosen.model}, {row}", repetitions, native, figures)
    figures.finish()
    return 0


def report(name: str, repetitions: list[dict[str, Any]], native: float, figures: Figures) -> None:
    """Print and record a row's medians; `native` is the prefill without a bank, in seconds."""
    numbers = [key for key, value in repetitions[0].items() if isinstance(value, int | float)]
    found = {key: median(one[key] for one in repetitions) for key in numbers}
    if repetitions[0]["row"] == CONSTRUCTION:
        milliseconds = {"construction": 1e3 * found["total_s"]}
    else:
        milliseconds = {part: 1e3 * found[f"{part}_s"] for part in ("transfer", "prefill")}
        milliseconds["added by transfer and read"] = 1e3 * (found["prefill_s"] + found["transfer_s"] - native)
        speed = found["tokens"] / found["decode_s"]
        figures.add(f"{name}: decoding", speed, "tokens/s", Bar(DECODED, at_least=True, target=True))
    for part, value in milliseconds.items():
        figures.add(f"{name}: {part}", value, "ms")
    if "peak_bytes" in found:
        figures.add(f"{name}: peak of allocated memory", found["peak_bytes"] / 2**30, "GiB")
    print(f"{name}: " + ", ".join(f"{part} {value:.2f} ms" for part, value in milliseconds.items()), flush=True)


if __name__ == "__main__":
    sys.exit(main())
