"""One update's time in parts, and a turn's peak memory beside the estimate, on a random model of a real architecture.

    python benchmarks/training.py                      # both architectures, small, in FP32, for a CPU
    python benchmarks/training.py --tokens 4096        # longer responses

Time: teacher, student forward (the bank's reads within it), objective, backward. Memory: the peak above the weights, in a
process of its own for each architecture.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--architecture", choices=["qwen3", "qwen3_5"])
    options.add_argument("--kind", choices=["stair", "bank_free", "lora", "lora_stair"], default="stair")
    options.add_argument("--tokens", type=int, default=1024, help="of every response")
    options.add_argument("--hidden", type=int, default=512)
    options.add_argument("--layers", type=int, default=8)
    options.add_argument("--vocabulary", type=int, default=32_000)
    options.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    options.add_argument("--threads", type=int, default=1)
    chosen = options.parse_args()
    if chosen.architecture:
        print(json.dumps(measure(chosen)))
        return
    for architecture in ("qwen3", "qwen3_5"):
        words = [sys.executable, __file__, "--architecture", architecture]
        for name in ("kind", "tokens", "hidden", "layers", "vocabulary", "dtype", "threads"):
            words += [f"--{name}", str(getattr(chosen, name))]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stderr)
        tell(architecture, chosen, json.loads(done.stdout.splitlines()[-1]))


def tell(architecture: str, chosen: argparse.Namespace, found: dict[str, Any]) -> None:
    """Prints what was measured."""
    print(
        f"{architecture}, {chosen.kind}, {chosen.dtype}, hidden {chosen.hidden}, {chosen.layers} layers, "
        f"4 responses of {chosen.tokens}"
    )
    total = sum(found["seconds"].values())
    for part, seconds in found["seconds"].items():
        print(f"  {part:16} {seconds:7.2f} s  {seconds / total:6.1%}")
    print(f"  of the student forward, reads of the bank: {found['read']:.2f} s ({found['read'] / total:.1%} of all)")
    ratio = found["estimate"] / found["measured"]
    print(
        f"  memory above the weights: {found['measured'] / 2**20:.0f} MiB measured, {found['estimate'] / 2**20:.0f} MiB "
        f"estimated ({ratio:.2f})"
    )


def measure(chosen: argparse.Namespace) -> dict[str, Any]:
    """A session of four equal turns."""
    import torch

    from stair.config.training import Controller
    from stair.conversation.renderer import Renderer
    from stair.method import readout
    from stair.tiny.tokenizer import train_tokenizer
    from stair.training.memory import Turn, turn_memory
    from stair.training.replay import RecordedTurn, SessionReplay
    from stair.training.student import Student
    from tests.conftest import random_model

    torch.set_num_threads(chosen.threads)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    thinking = chosen.architecture == "qwen3_5"
    texts = ["user\n", "assistant\n", *(f"What is {a} + {b}? {a + b}" for a in range(20) for b in range(20))]
    tokenizer = train_tokenizer(texts, vocabulary=300, thinking=thinking)
    renderer = Renderer(tokenizer, thinking=thinking, stop_ids=tokenizer.convert_tokens_to_ids(["<|im_end|>"]))
    sizes = dict(
        hidden_size=chosen.hidden, intermediate_size=3 * chosen.hidden, num_hidden_layers=chosen.layers, head_dim=64,
        num_attention_heads=chosen.hidden // 64, num_key_value_heads=max(1, chosen.hidden // 256),
        vocab_size=chosen.vocabulary, max_position_embeddings=65_536,
    )  # fmt: skip
    if thinking:
        kinds = ["full_attention" if layer % 4 == 3 else "linear_attention" for layer in range(chosen.layers)]
        sizes |= dict(layer_types=kinds)
    model = random_model(chosen.architecture, dtype=getattr(torch, chosen.dtype), **sizes).to(device)
    layers = (3, 7) if chosen.layers >= 8 else (3,)
    parts: dict[str, Any] = {"kind": chosen.kind, "seed": "benchmark"}
    if chosen.kind != "lora":
        parts |= {"layers": layers, "optimizer": {"learning_rate": 0.003}}
    if "lora" in chosen.kind:
        parts["adapter"] = {"warmup_updates": 0, "optimizer": {"learning_rate": 0.0002}}
    student = Student.new(model, Controller.model_validate(parts), "benchmark")
    # Real text, so that decoding and encoding an answer gives its own ids and the native model's states of it are reused.
    turns = []
    for number in range(4):
        text = ", ".join(f"{a} + {number} = {a + number}" for a in range(chosen.tokens))
        ids = tokenizer(text, add_special_tokens=False)["input_ids"][: chosen.tokens]
        turns.append(RecordedTurn(f"What is {number} + 1?", tuple(ids), 1.0))
    seconds: dict[str, float] = defaultdict(float)
    reads = [0.0]

    def now() -> float:
        if device == "cuda":
            torch.cuda.synchronize()
        return time.monotonic()

    @contextmanager
    def timer(part: str) -> Iterator[None]:
        begun = now()
        yield
        seconds[part] += now() - begun

    plain = readout.RowReadout._read

    def timed_read(self: Any, index: int, queries: Any) -> Any:
        begun = now()
        found = plain(self, index, queries)
        reads[0] += now() - begun
        return found

    readout.RowReadout._read = timed_read  # type: ignore[method-assign]
    replay = SessionReplay(student=student, renderer=renderer, checkpoint_activations=True, timer=timer)
    # What libraries allocate once, and the tables of a first pass, are no part of a turn.
    short = [RecordedTurn(turn.user, turn.response_ids[:64], 1.0) for turn in turns]
    replay.run(short, lambda turn, parts: parts.loss.backward())
    seconds.clear()
    reads[0] = 0.0
    replay.run(turns, lambda turn, parts: parts.loss.backward())
    told, read = dict(seconds), reads[0]
    above = peak_of_tensors(device, lambda: replay.run(turns, lambda turn, parts: parts.loss.backward()))
    visible = 0 if thinking else chosen.tokens  # without a marker nothing of a thinking response is seen again
    longest = Turn(3 * (visible + 25), 25, chosen.tokens, 3 * chosen.tokens)
    trained = sum(each.numel() for named in student.parts().values() for each in named.values())
    estimate = turn_memory(
        model.config.to_dict(), longest, weights=0, trained=trained, adapts=student.adapts, flash=False,
        width=model.dtype.itemsize, layers=() if student.controller is None else student.controller.layers,
    )  # fmt: skip
    return {"seconds": told, "read": read, "measured": above, "estimate": sum(estimate.values())}


def peak_of_tensors(device: str, work: Callable[[], object]) -> int:
    """Bytes of the tensors that live together at the worst moment of some work, above those that lived before it."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    if device == "cuda":
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        work()
        return int(torch.cuda.max_memory_allocated() - before)
    # A process's size says little: freed memory is kept for later. The allocator's own events are exact.
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=False) as found:
        work()
    events = [event for event in found.profiler.kineto_results.events() if event.name() == "[memory]"]
    held = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    return most


if __name__ == "__main__":
    main()
