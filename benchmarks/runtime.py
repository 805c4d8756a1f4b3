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
from stair.method import Reflector, Segment
from stair.models.architecture import describe
from stair.models.published import CONFIGS
from stair.stages.runtime.measure import Measurer, Method
from stair.stages.runtime.shapes import controlled_layers, random_model, shape_config
from stair.stages.runtime.study_units import FULL, NATIVE, Unit, synthetic_histories

PARTS = ("construction", "transfer", "prefill")
ADDED_MS, DECODED = 15.0, 100.0
"""On one H200-class GPU: what the full bank adds to the prefill, and tokens a second of one sequence."""


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
    (history,) = synthetic_histories(
        [entries], prompt=prompt, question=question, vocabulary=facts.vocabulary, seed="benchmark"
    )
    method = Method(
        sampling=SamplingSettings(temperature=0.7, top_p=0.8, top_k=20),
        tokens=facts.vocabulary,
        stop_ids=(),
        end_of_thinking=None,
        chunk=2_048,
        block=256,
        decode=chosen.tokens,
        read=ReadSpecification(),
        warmups=1,
        repetitions=chosen.repetitions,
    )
    units = (
        Unit("construction", history.name, "", "", 0, entries),
        Unit("row", history.name, NATIVE, "", 0, entries),
        Unit("row", history.name, f"prefix-{prefix}", "fast-serial", prefix, entries),
        Unit("row", history.name, FULL, "fast-serial", entries, entries),
        Unit("row", history.name, FULL, "fast-overlapped", entries, entries),
    )
    figures = Figures(chosen.json)
    model = random_model(shape, chosen.device, torch.bfloat16 if gpu else torch.float32)
    measurer = Measurer(model, Reflector.draw(layers, facts.query_heads, facts.head_dim, seed=0), method)
    segments: list[Segment] = []
    native = None
    for unit in units:
        name = f"{chosen.model}, {' '.join(filter(None, (unit.row or unit.part, unit.variant)))}"
        with figures.case(name):
            if unit.variant and not segments:
                segments.append(measurer.construct(history))
            record = measurer.measure(unit, history, segments)
            if "gap" in record:
                figures.left_out(name, record["gap"])
                continue
            found = medians(record["repetitions"])
            if unit.row == NATIVE:
                native = found["prefill_s"]
            report(name, unit, found, native, measurer.memory, figures)
    figures.finish()
    return 0


def medians(repetitions: list[dict[str, Any]]) -> dict[str, float]:
    """The median of each part that was measured."""
    return {
        part: median(each[part] for each in repetitions) for part, value in repetitions[0].items() if value is not None
    }


def report(name: str, unit: Unit, found: dict[str, float], native: float | None, memory: str, figures: Figures) -> None:
    """Print and record a unit's medians; `native` is the prefill without a bank, in seconds, if it was measured."""
    milliseconds = {part: 1e3 * found[f"{part}_s"] for part in PARTS if f"{part}_s" in found}
    if not unit.variant:
        milliseconds.pop("transfer", None)  # there is no bank
    elif native is not None:
        added = found["prefill_s"] + found.get("transfer_s", 0.0) - native
        milliseconds["added by transfer and read"] = 1e3 * added
    for part, value in milliseconds.items():
        judged = part.startswith("added") and unit.variant == "fast-overlapped"
        figures.add(f"{name}: {part}", value, "ms", *([Bar(ADDED_MS, target=True)] if judged else []))
    if "decode_s" in found:
        speed = found["tokens"] / found["decode_s"]
        figures.add(f"{name}: decoding", speed, "tokens/s", Bar(DECODED, at_least=True, target=True))
    if "peak_bytes" in found:
        figures.add(f"{name}: peak of {memory} memory", found["peak_bytes"] / 2**30, "GiB")
    print(f"{name}: " + ", ".join(f"{part} {value:.2f} ms" for part, value in milliseconds.items()), flush=True)


if __name__ == "__main__":
    sys.exit(main())
