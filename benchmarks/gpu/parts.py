"""What `make gpu` runs. A new measurement is one more entry of `PARTS`."""

from __future__ import annotations

import shlex
from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """A command that writes its figures with `--json FILE` (benchmarks/figures.py)."""

    name: str
    what: str
    """One sentence for the page."""
    module: str
    """Run as `python -m MODULE`."""
    seconds: int
    """The part's share of the time. It gets more where parts before it left some."""
    cuda: str
    """Arguments at the real shapes."""
    cpu: str
    """Arguments at small shapes, for the test without a GPU."""

    def arguments(self, device: str) -> list[str]:
        return shlex.split(self.cuda if device == "cuda" else self.cpu)


PARTS = (
    Part(
        "tests",
        "The kernels against the equations; the objective in BF16; each architecture in BF16 loaded, decoded and replayed "
        "(with SDPA, and with FlashAttention2 where it is installed) and trained.",
        "benchmarks.gpu.device_tests",
        150,
        cuda="",
        cpu="--select 'plain or launches or one_pass or log_sum_exp'",
    ),
    Part(
        "read",
        "The differential read beside one flash read of the same bank, and the prefill that it adds to a model.",
        "benchmarks.read",
        80,
        cuda="--device cuda --banks 8192 80700 --prompts 64 256 1024 --least-seconds 0.5 "
        "--prefill qwen3.5-4b qwen3-4b-instruct",
        cpu="--shapes qwen3-4b --banks 128 256 --prompts 8 16 --rounds 1 --least-seconds 0 --backward "
        "--prefill tiny-qwen3.5 --prefill-sizes 200 64 20",
    ),
    Part(
        "log-sum-exp",
        "The read from three flash reads and their log-sum-exps beside the kernels: time and error, in BF16 and FP16.",
        "benchmarks.log_sum_exp",
        30,
        cuda="--device cuda --banks 8192 --prompts 64 256",
        cpu="--shapes qwen3-4b --banks 128 --prompts 16 --rounds 1 --least-seconds 0",
    ),
    Part(
        "decode",
        "Decoding one response and a batch, natively and with STAIR and capture.",
        "benchmarks.decode",
        55,
        cuda="--device cuda --shapes qwen3-4b-instruct --batch 1 64 --prompt 128 --tokens 48 --rounds 1 --loop 1",
        cpu="--shapes tiny-qwen3 --batch 2 --prompt 40 --tokens 8 --bank 30 --rounds 1 --loop 1",
    ),
    Part(
        "decode, Qwen3.5",
        "The same of a model with linear attention, which needs flash-linear-attention for its speed.",
        "benchmarks.decode",
        40,
        cuda="--device cuda --shapes qwen3.5-4b --batch 16 --prompt 128 --tokens 48 --rounds 1 --loop 1",
        cpu="--shapes tiny-qwen3.5 --batch 2 --prompt 40 --tokens 8 --bank 30 --rounds 1 --loop 1",
    ),
    Part(
        "long",
        "Sixteen rows with prompts of 16,384 tokens and 2,000 decoded tokens, natively and with STAIR and capture.",
        "benchmarks.long",
        180,
        cuda="--device cuda",
        cpu="--rows 2 --prompt 80 --tokens 12 --bank 30",
    ),
    Part(
        "runtime",
        "The runtime study's own measurements at Qwen3.5-4B's shape: transfer, prefill and decoding behind a bank of the "
        "paper's median length.",
        "benchmarks.runtime",
        55,
        cuda="--device cuda",
        cpu="--entries 300 --prefix 100 --tokens 4 --repetitions 1",
    ),
    Part(
        "loss",
        "The objective in chunks beside the whole one, at Qwen3-4B's output layer.",
        "benchmarks.loss",
        25,
        cuda="--device cuda --dtype bfloat16 --tokens 32768 --whole-tokens 2048 --hidden 2560 --vocabulary 151936",
        cpu="--device cpu --tokens 64 --whole-tokens 32 --hidden 32 --vocabulary 500",
    ),
    Part(
        "loss, 9B",
        "The same at Qwen3.5-9B's output layer.",
        "benchmarks.loss",
        25,
        cuda="--device cuda --dtype bfloat16 --tokens 32768 --whole-tokens 2048 --hidden 4096 --vocabulary 248320",
        cpu="--device cpu --tokens 32 --whole-tokens 16 --hidden 32 --vocabulary 700",
    ),
    Part(
        "addition",
        "The share of a readout that BF16 rounds away, by where the output path adds it.",
        "benchmarks.addition",
        20,
        cuda="--device cuda",
        cpu="--models qwen3-4b-instruct --signals 0.03 0.003 --entries 32 --tokens 16",
    ),
    Part(
        "replay",
        "A batch of the crossed replay behind a shared history: time beside whole prompts and without probes, peak memory.",
        "benchmarks.replay",
        25,
        cuda="--device cuda --shapes qwen3-4b-instruct --measured 3 11 19 27 --rounds 2",
        cpu="--hidden 256 --head-dim 32 --layers 5 --measured 3 --prefix 700 --problems 8 --tokens 100 --rounds 1 --no-bars",
    ),
    Part(
        "training",
        "A session's training in parts, and its peak memory, by what runs again; LoRA's products in BF16 beside FP32.",
        "benchmarks.training",
        100,
        cuda="--device cuda --tokens 2048 --lora qwen3-4b-instruct",
        cpu="--tokens 48 --hidden 128 --layers 4 --vocabulary 1000 --kinds stair lora_stair --lora qwen3",
    ),
    Part(
        "passes",
        "What packed sessions and compiled layers could gain: a turn's passes of one, two and four rows, and of one row "
        "with compiled layers.",
        "benchmarks.passes",
        40,
        cuda="--device cuda",
        cpu="--tokens 24 --rows 1 2 --rounds 1 --backend eager",
    ),
)
BY_MODULE = {part.module: part for part in PARTS}
"""Each measurement once: of two parts with one measurement, the last."""
