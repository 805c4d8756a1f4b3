"""Load, decode, read, capture, reconstruct and train on the GPU where there is one, else on the CPU.

Small models with the published heads. Needs torch, Transformers and pytest; `make gpu` runs it.
"""

from __future__ import annotations

from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM

from stair.engines.base import Capture, Completion, Reconstruction, Request, SamplingSettings
from stair.engines.transformers import TransformersEngine, step_graph
from stair.method import Attachment, Bank, Read, Reflector, Segment
from stair.method.differential import Backend
from stair.models.architecture import describe
from stair.models.attention import NAME
from stair.models.flash_kernels import PACKAGES
from stair.models.prefix import Prefix
from stair.models.published import CONFIGS
from stair.stages.replay.measurement.categories import CurrentTurn
from stair.stages.replay.measurement.probe import Probe, Turns
from stair.stages.training.objective import response_objective
from stair.stages.training.teacher_forcing import Recompute, recomputing
from tests.deviation import deviation

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LAYERS = (3,)
SAMPLING = SamplingSettings(temperature=0.7, top_p=0.8, top_k=20)
SMALL = dict(hidden_size=128, intermediate_size=256, num_hidden_layers=4, vocab_size=512, tie_word_embeddings=True)


@pytest.fixture(
    scope="module", params=["qwen3-4b-instruct", "qwen3.5-4b"] if DEVICE == "cuda" else ["qwen3-4b-instruct"]
)
def config(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The published heads with a small width, depth and vocabulary; 9B has the heads of 4B. On a CPU one model shows it."""
    return {**CONFIGS[request.param], **SMALL}


@pytest.fixture(autouse=True)
def no_tf32(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch rounds convolutions of float32 to TF32 on a GPU by default."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


def random_model(config: dict[str, Any], dtype: torch.dtype, device: str, attention: str = "sdpa") -> Any:
    """A model whose attention is not uniform; drawn on the CPU, so that devices agree."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config), dtype=torch.float64)
    model.config._attn_implementation = attention
    for parameter in model.parameters():
        if parameter.dim() == 2:
            torch.nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5)
    rotary = model.get_decoder().rotary_emb
    frequencies = rotary.inv_freq.clone()
    model.eval().requires_grad_(False).to(device, dtype)
    rotary.inv_freq = frequencies.to(device)  # `to` rounds it, loading a model does not
    return model


def random_segment(config: dict[str, Any], tokens: int, dtype: torch.dtype) -> Segment:
    generator = torch.Generator().manual_seed(1)
    shape = (2, len(LAYERS), config["num_key_value_heads"], tokens, config["head_dim"])
    return Segment(LAYERS, *torch.randn(*shape, generator=generator).to(dtype))


def reflector(config: dict[str, Any]) -> Reflector:
    return Reflector.draw(LAYERS, config["num_attention_heads"], config["head_dim"], seed=3)


def relative(found: Tensor, expected: Tensor) -> float:
    found, expected = found.detach().double().cpu(), expected.detach().double().cpu()
    return float((found - expected).norm() / expected.norm())


flash = [
    pytest.param(
        attention,
        marks=pytest.mark.skipif(
            DEVICE == "cpu" or find_spec(module) is None, reason=f"{attention} needs a GPU and the package {package}"
        ),
    )
    for attention, (module, package) in PACKAGES.items()
]


@pytest.mark.parametrize("attention", ["sdpa", *flash])
def test_a_saved_model_loads_decodes_and_captures_in_bf16(
    config: dict[str, Any], attention: str, tmp_path: Path
) -> None:
    """Two turns in a batch: the second reads the bank of the first, and a reconstruction gives its states."""
    random_model(config, torch.bfloat16, "cpu").save_pretrained(tmp_path)
    engine = TransformersEngine.load(
        tmp_path, dtype="bfloat16", device=DEVICE, attention=attention, tokens=500, layers=LAYERS, batch_width=3
    )
    assert (engine.identity.dtype, engine.identity.attention) == ("bfloat16", attention)
    generator = torch.Generator().manual_seed(2)
    prompts = torch.randint(0, 500, (4, 70), generator=generator).tolist()

    def ask(number: int, read: Read | None) -> Request:
        capture = Capture(LAYERS, None)
        return Request(
            f"{number}", tuple(prompts[number]), SAMPLING, number, 24, stop_ids=(), read=read, capture=capture
        )

    first = {done.key: done for done in engine.run([ask(number, None) for number in range(4)])}
    bank = Bank(LAYERS, [captured(first["0"]), captured(first["1"])])
    assert bank.tokens == 46  # the token drawn last has no state
    controller = reflector(config).to(DEVICE)
    read = Read(bank, controller, span=(40, 70))
    second = {done.key: done for done in engine.run([ask(2, read), ask(3, None)])}
    receipt = second["2"].receipt
    assert receipt is not None
    assert (receipt.controlled_tokens, receipt.bank_tokens) == (30, 46)
    assert receipt.readout_norm > 0.01
    assert {key: len(done.response_ids) for key, done in (first | second).items()} == dict.fromkeys("0123", 24)
    again = Reconstruction("2", tuple(prompts[2]), second["2"].response_ids, (), Capture(LAYERS, None), read)
    assert deviation(engine.reconstruct([again])[0], captured(second["2"])) < 2e-2


@pytest.mark.skipif(DEVICE == "cpu", reason="only a GPU records steps")
@pytest.mark.parametrize(
    ("dtype", "attention"),
    [
        (torch.float32, "sdpa"),
        (torch.bfloat16, "sdpa"),
        *(pytest.param(torch.bfloat16, *each.values, marks=each.marks) for each in flash),
    ],
)
def test_a_recorded_step_gives_the_bits_of_the_step_itself(
    config: dict[str, Any], dtype: torch.dtype, attention: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows come, grow beyond the cache's blocks and go; some capture, some do not."""
    model = random_model(config, dtype, DEVICE, attention)
    generator = torch.Generator().manual_seed(4)
    prompts = torch.randint(0, 500, (6, 40), generator=generator).tolist()
    lengths = (9, 90, 30, 61, 44, 17)
    replays = 0
    replay = torch.cuda.CUDAGraph.replay

    def counted(graph: torch.cuda.CUDAGraph) -> None:
        nonlocal replays
        replays += 1
        replay(graph)

    def responses() -> dict[str, Completion]:
        engine = TransformersEngine(model, tokens=500, layers=LAYERS, batch_width=3, cache_block=32)
        requests = [
            Request(
                str(n), tuple(prompts[n]), SAMPLING, n, lengths[n], stop_ids=(),
                capture=None if n == 1 else Capture(LAYERS, None),
            )
            for n in range(len(prompts))
        ]  # fmt: skip
        return {done.key: done for done in engine.run(requests)}

    monkeypatch.setattr(torch.cuda.CUDAGraph, "replay", counted)
    recorded = responses()
    assert replays > 60
    monkeypatch.setattr(step_graph, "FORWARDS", 1000)
    plain = responses()
    for key, done in recorded.items():
        assert done.response_ids == plain[key].response_ids
        assert (done.bank is None) == (key == "1")
        if done.bank is not None:
            assert done.bank.digest == captured(plain[key]).digest


@pytest.mark.skipif(DEVICE == "cpu", reason="only a GPU records steps")
def test_a_step_that_cannot_be_recorded_runs_as_it_is(
    config: dict[str, Any], capfd: pytest.CaptureFixture[str]
) -> None:
    model = random_model(config, torch.bfloat16, DEVICE)
    request = Request("a", tuple(range(40)), SAMPLING, 0, 30, stop_ids=())

    def response() -> tuple[int, ...]:
        (done,) = TransformersEngine(model, tokens=500, batch_width=2, cache_block=32).run([request])
        return done.response_ids

    expected, stream = response(), torch.cuda.current_stream()
    # Asking the device for a number is what a recording forbids.
    hook = model.get_decoder().norm.register_forward_hook(
        lambda module, args, output: output * float(output.abs().max() > 0)
    )
    assert response() == response() == expected
    hook.remove()
    assert capfd.readouterr().err.count("this batch decodes without one") == 2, "one warning a batch"
    assert torch.cuda.current_stream() == stream


def captured(completion: Completion) -> Segment:
    assert completion.bank is not None
    return completion.bank


def measured_cells(config: dict[str, Any], dtype: torch.dtype, device: str, attention: str) -> dict[str, Tensor]:
    """Three problems of the crossed replay behind a history that grows from turn to turn."""
    model = random_model({**config, "num_hidden_layers": 5}, dtype, device, attention)
    generator = torch.Generator().manual_seed(6)

    def drawn(count: int) -> tuple[int, ...]:
        return tuple(torch.randint(0, 500, (count,), generator=generator).tolist())

    history = drawn(300)
    prefix = Prefix.empty(model)
    for end in (70, 230, 300):
        prefix = prefix.extended(history[:end])
    problems = [CurrentTurn(drawn(count), (3, count - 5)) for count in (40, 60, 51)]
    turns = Turns.pad(problems, rows=4, columns=60, device=device)
    measured = Probe(model, LAYERS).measure(prefix, [position // 50 % 3 for position in range(300)], turns)
    return {part.name: getattr(measured, part.name) for part in fields(measured)}


@pytest.fixture(scope="module")
def eager_cells(config: dict[str, Any]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """In FP64 and in BF16."""
    exact, plain = (measured_cells(config, dtype, "cpu", "eager") for dtype in (torch.float64, torch.bfloat16))
    return exact, plain


@pytest.mark.parametrize("attention", ["sdpa", NAME, *flash])
def test_a_replayed_cell_in_bf16_errs_at_most_twice_as_much_as_eager_attention_on_a_cpu(
    config: dict[str, Any], eager_cells: tuple[dict[str, Tensor], dict[str, Tensor]], attention: str
) -> None:
    exact, plain = eager_cells
    found = measured_cells(config, torch.bfloat16, DEVICE, attention)
    torch.testing.assert_close(found["masses"].sum(-1), torch.ones_like(found["masses"].sum(-1)))
    for name, wanted in exact.items():
        if name != "embedding":  # a mean of given numbers, of which BF16 rounds none away
            assert relative(found[name], wanted) <= 2.0 * relative(plain[name], wanted), name


def turn_with_gradient(
    config: dict[str, Any], dtype: torch.dtype, device: str, backend: Backend
) -> tuple[Tensor, Tensor]:
    """(hidden states of the response, gradient of the normals) of a checkpointed turn."""
    model = random_model(config, dtype, device)
    assert describe(model.config.to_dict()).full_attention_layers[0] in (0, 3)
    ids = torch.randint(0, 500, (1, 90), generator=torch.Generator().manual_seed(5)).to(device)
    controller = reflector(config).to(device, torch.promote_types(dtype, torch.float32))
    control = Read(Bank(LAYERS, [random_segment(config, 130, dtype)]), controller, (20, 50))
    mask = torch.ones_like(ids)
    attachment = Attachment(model, LAYERS, backend=backend)
    with torch.no_grad():
        teacher = model.get_decoder()(input_ids=ids, attention_mask=mask).last_hidden_state[0, 49:-1]
    positions = torch.arange(ids.shape[1])[None]
    with recomputing(model, Recompute.LAYERS), attachment.controlling([control], positions):
        hidden = model.get_decoder()(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state[0, 49:-1]
        head = model.get_output_embeddings().weight
        response_objective(hidden, teacher, head, ids[0, 50:]).loss.backward()
    assert controller.normals.grad is not None
    return hidden, controller.normals.grad


@pytest.fixture(scope="module")
def exact_turn(config: dict[str, Any]) -> tuple[Tensor, Tensor]:
    return turn_with_gradient(config, torch.float64, "cpu", "naive")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def test_a_supervised_turn_errs_at_most_twice_as_much_as_the_naive_read_on_a_cpu(
    config: dict[str, Any], exact_turn: tuple[Tensor, Tensor], dtype: torch.dtype
) -> None:
    plain = turn_with_gradient(config, dtype, "cpu", "naive")
    # In float32 the kernels of wide heads compile for minutes; triton_cases.py has them at narrow heads.
    found = turn_with_gradient(config, dtype, DEVICE, "torch" if dtype == torch.float32 else "auto")
    for one, other, wanted in zip(found, plain, exact_turn, strict=True):
        assert wanted.detach().norm() > 0.0
        bound = 2.0 * relative(other, wanted)
        # Another device adds up in another order: in float32 that alone can exceed a bound of 1e-6.
        assert relative(one, wanted) <= max(bound, 1e-4 if dtype == torch.float32 else 0.0)
