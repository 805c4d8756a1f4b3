"""One update's time in parts, and a turn's peak memory, on a random model of a real architecture.

    python -m benchmarks.training                      # both architectures, small, in FP32, for a CPU
    python -m benchmarks.training --tokens 4096        # longer responses
    python -m benchmarks.training --device cuda        # the paper's three models at their shapes, in BF16

Time: teacher, student forward (the bank's reads within it), objective, backward. Memory: the peak above the weights, in a
process of its own for each model. With nothing run again in the backward pass, with all layers, and with their inputs in host
memory.
Operations are those that torch's FlopCounterMode counts, with what runs again; it does not see the kernels of the bank's read.
An adapter is also measured with its two products in FP32, as PEFT computes them, beside the product's BF16.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from benchmarks.figures import Figures
from stair.records.interruption import end_with_parent

PUBLISHED_TFLOPS = {"H100": 989, "H200": 989, "H800": 989, "A100": 312, "A800": 312, "L40S": 362}
"""10^12 operations a second in BF16, without sparsity, by a part of a GPU's name."""
SMALL = ("qwen3", "qwen3_5")
"""Both architectures at the sizes that --hidden, --layers and --vocabulary give."""
REAL = ("qwen3-4b-instruct", "qwen3.5-4b", "qwen3.5-9b")


@dataclass(frozen=True)
class Adapter:
    """The paper's adapter. The configuration's own classes need pydantic, which a machine with a GPU may lack."""

    rank: int = 2
    alpha: int = 4
    projections: tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


@dataclass(frozen=True)
class Settings:
    """Of a controller's configuration, what `Student.new` reads."""

    kind: str
    controlled_layers: tuple[int, ...]
    seed: str = "benchmark"
    smoothing: float = 1e-6

    @property
    def adapter(self) -> Adapter | None:
        return Adapter() if "lora" in self.kind else None

    @property
    def controls(self) -> bool:
        return self.kind != "lora"

    @property
    def reads(self) -> bool:
        return "stair" in self.kind


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    options.add_argument("--shapes", nargs="+", choices=[*SMALL, *REAL], help="all small ones; on a GPU the real ones")
    options.add_argument("--kinds", nargs="+", choices=["stair", "bank_free", "lora", "lora_stair"], default=["stair"])
    options.add_argument("--lora", metavar="SHAPE", choices=[*SMALL, *REAL], help="also measure LoRA on this shape")
    options.add_argument("--tokens", type=int, default=1024, help="of every response")
    options.add_argument("--hidden", type=int, default=512, help="of the small shapes")
    options.add_argument("--layers", type=int, default=8, help="of the small shapes")
    options.add_argument("--vocabulary", type=int, default=32_000, help="of the small shapes")
    options.add_argument("--dtype", choices=["float32", "bfloat16"], help="BF16 on a GPU, else FP32")
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--one", nargs=2, metavar=("SHAPE", "KIND"), help=argparse.SUPPRESS)
    Figures.add_argument(options)
    chosen = options.parse_args()
    chosen.dtype = chosen.dtype or ("bfloat16" if chosen.device == "cuda" else "float32")
    if chosen.one:
        print(json.dumps(measure(chosen, *chosen.one)))
        return
    figures = Figures(chosen.json)
    shapes = chosen.shapes or (REAL if chosen.device == "cuda" else SMALL)
    cases = [(shape, kind) for shape in shapes for kind in chosen.kinds]
    for shape, kind in cases + [(chosen.lora, "lora")] * bool(chosen.lora):
        if "lora" in kind and find_spec("peft") is None:
            figures.left_out(f"{shape}, {kind}", "the package peft is not installed")
            continue
        with figures.case(f"{shape}, {kind}"):
            for layers, costs in run(chosen, shape, kind).items():
                report(shape, kind, layers, chosen, costs, figures)
    figures.finish()


def run(chosen: argparse.Namespace, shape: str, kind: str) -> dict[str, dict[str, Any]]:
    """One case in a process of its own: costs by the layers that run again."""
    words = [sys.executable, "-m", "benchmarks.training", "--one", shape, kind]
    for name in ("device", "tokens", "hidden", "layers", "vocabulary", "dtype", "threads"):
        words += [f"--{name}", str(getattr(chosen, name))]
    done = subprocess.run(words, capture_output=True, text=True, check=False, preexec_fn=end_with_parent)
    if done.returncode:
        raise RuntimeError(f"exit status {done.returncode}\n{done.stderr.strip()}")
    costs: dict[str, dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return costs


def report(
    shape: str, kind: str, layers: str, chosen: argparse.Namespace, costs: dict[str, Any], figures: Figures
) -> None:
    """Prints and records what was measured."""
    size = f", hidden {chosen.hidden}, {chosen.layers} layers" if shape in SMALL else ""
    print(f"{shape}, {kind}, {layers}, {chosen.dtype}{size}, 4 responses of {chosen.tokens}")
    where = f"{shape}, {kind}, 4 responses of {chosen.tokens:,}, {layers}"
    total = sum(costs["seconds"].values())
    for part, seconds in costs["seconds"].items():
        print(f"  {part:16} {seconds:7.2f} s  {seconds / total:6.1%}")
        figures.add(f"{where}: {part}", seconds, "s", note=f"{seconds / total:.1%} of all")
    print(f"  of the student forward, reads of the bank: {costs['read']:.2f} s ({costs['read'] / total:.1%} of all)")
    figures.add(f"{where}: reads of the bank", costs["read"], "s", note=f"{costs['read'] / total:.1%} of all")
    rate, tflops = 3 * chosen.tokens / total, costs["operations"] / total / 1e12
    published = next((peak for name, peak in PUBLISHED_TFLOPS.items() if name in costs["device"]), None)
    note = "with what runs again" + ("" if published is None else f"; {tflops / published:.0%} of the published ones")
    print(f"  {rate:,.0f} supervised tokens/s, {tflops:,.2f} TFLOP/s ({note})")
    figures.add(f"{where}: supervised tokens", rate, "tokens/s", note=f"{total:.3f} s a session")
    figures.add(f"{where}: operations", tflops, "TFLOP/s", note=note)
    print(f"  memory above the weights: {costs['measured'] / 2**20:.0f} MiB")
    figures.add(f"{where}: memory above the weights", costs["measured"] / 2**30, "GiB")


def configuration(chosen: argparse.Namespace, shape: str) -> tuple[dict[str, Any], tuple[int, ...]]:
    """Keys of the model's config.json, and the controlled layers."""
    from stair.models.published import CONFIGS, CONTROLLED_LAYERS

    if shape in CONFIGS:
        return CONFIGS[shape], CONTROLLED_LAYERS
    sizes = dict(
        hidden_size=chosen.hidden, intermediate_size=3 * chosen.hidden, num_hidden_layers=chosen.layers, head_dim=64,
        num_attention_heads=chosen.hidden // 64, num_key_value_heads=max(1, chosen.hidden // 256),
        vocab_size=chosen.vocabulary, max_position_embeddings=65_536, tie_word_embeddings=True,
    )  # fmt: skip
    rope = {"rope_type": "default", "rope_theta": 1e4}
    if shape == "qwen3_5":
        hybrid = dict(
            model_type="qwen3_5_text", linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=8,
            linear_value_head_dim=8, rope_parameters={**rope, "partial_rotary_factor": 0.25},
        )  # fmt: skip
        sizes |= hybrid
    else:
        sizes |= dict(model_type="qwen3", rope_parameters=rope)
    return sizes, (3, 7) if chosen.layers >= 8 else (3,)


def widen_products(model: Any) -> None:
    """Has the adapter of `model` compute in FP32, the precision of its parameters, as PEFT does by itself."""
    from peft.tuners.lora import LoraLayer
    from torch import nn

    for layer in model.modules():
        if isinstance(layer, LoraLayer):
            layer.cast_input_dtype_enabled = True
            for product in (*layer.lora_A.values(), *layer.lora_B.values()):
                product.__class__ = nn.Linear


def measure(chosen: argparse.Namespace, shape: str, kind: str) -> dict[str, dict[str, Any]]:
    """A session of four equal turns, by what runs again; an adapter's also with products in FP32."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from stair.method.read import RowReadout
    from stair.sessions.renderer import Renderer
    from stair.stages.runtime.shapes import random_model
    from stair.stages.training.student import Student
    from stair.stages.training.teacher_forcing import Recompute, RecordedTurn, TeacherForcing

    torch.set_num_threads(chosen.threads)
    device = chosen.device
    config, layers = configuration(chosen, shape)
    thinking = config["model_type"] == "qwen3_5_text"
    folder = Path(__file__).parents[1] / "backbones" / ("tiny-qwen3.5-4b" if thinking else "tiny-qwen3-4b")
    renderer = Renderer.load(folder, thinking=thinking)
    model = random_model(config, device, getattr(torch, chosen.dtype), "sdpa")
    student = Student.new(model, cast(Any, Settings(kind, layers)), "benchmark")
    # Real text, so that decoding and encoding an answer gives its own ids and the native model's states of it are reused.
    turns = []
    for number in range(4):
        text = ", ".join(f"{a} + {number} = {a + number}" for a in range(chosen.tokens))
        ids = renderer.tokenizer(text, add_special_tokens=False)["input_ids"][: chosen.tokens]
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

    plain = RowReadout._readout

    def timed_read(self: Any, index: int, queries: Any) -> Any:
        begun = now()
        read_out = plain(self, index, queries)
        reads[0] += now() - begun
        return read_out

    RowReadout._readout = timed_read  # type: ignore[method-assign]
    ways = {
        "all layers again": Recompute.LAYERS,
        "from inputs in host memory": Recompute.FROM_HOST,
        "nothing again": Recompute.NOTHING,
    }
    if student.adapts:
        ways["nothing again, products in FP32"] = Recompute.NOTHING
    found = {}
    for way, recompute in ways.items():
        if way.endswith("FP32"):
            widen_products(model)
        forcing = TeacherForcing(student=student, renderer=renderer, recompute=recompute, timer=timer)

        def session(turns: list[RecordedTurn] = turns, forcing: TeacherForcing = forcing) -> None:
            forcing.run(turns, lambda turn, parts: parts.loss.backward())

        # What libraries allocate once, and the tables of a first pass, are no part of a turn.
        session([RecordedTurn(turn.user, turn.response_ids[:64], 1.0) for turn in turns])
        seconds.clear()
        reads[0] = 0.0
        session()
        reported, read = dict(seconds), reads[0]
        above = peak_of_tensors(device, session)
        with FlopCounterMode(display=False) as counter:
            session()
        found[way if not forcing.too_long else f"{way}, and more where memory ran out"] = {
            "seconds": reported, "read": read, "measured": above, "operations": counter.get_total_flops(),
            "device": torch.cuda.get_device_name() if device == "cuda" else device,
        }  # fmt: skip
    return found


def peak_of_tensors(device: str, work: Callable[[], object]) -> int:
    """Bytes of the tensors that live together at the worst moment of some work, above those that lived before it."""
    import torch

    if device == "cuda":
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        work()
        return int(torch.cuda.max_memory_allocated() - before)
    # On a CPU, the tensors that operations return. Its kernels' own copies of mixed operands are none of a GPU's.
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves
    from torch.utils.weak import WeakIdKeyDictionary

    class Held(TorchDispatchMode):
        now = most = 0

        def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            results = operation(*args, **(kwargs or {}))
            for storage in storages((args, kwargs)):  # what lived before the work is not counted
                known.setdefault(storage, None)
            for storage in storages(results):
                if storage not in known:
                    known[storage] = None
                    self.now += storage.nbytes()
                    weakref.finalize(storage, self.free, storage.nbytes())
            self.most = max(self.most, self.now)
            return results

        def free(self, nbytes: int) -> None:
            self.now -= nbytes

    def storages(tree: Any) -> list[Any]:
        return [leaf.untyped_storage() for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]

    known: Any = WeakIdKeyDictionary()
    with Held() as held:
        work()
    return held.most


if __name__ == "__main__":
    main()
