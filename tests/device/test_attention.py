"""Attention with its log-sum-exp against FP64; attention without a mask against eager attention."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile
from transformers import AutoConfig, AutoModelForCausalLM, Cache, DynamicCache, StaticCache
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.models.qwen3.modeling_qwen3 import eager_attention_forward

from stair.models import attention

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
QUERY_HEADS, HEAD_DIM = 4, 64


def printed_attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor, scaling: float, **_: Any
) -> tuple[Tensor, None]:
    """The equations in the inputs' precision; Transformers' eager attention has a softmax in FP32."""
    key, value = (states.repeat_interleave(module.num_key_value_groups, dim=1) for states in (key, value))
    shares = (query @ key.transpose(2, 3) * scaling + attention_mask).softmax(-1)
    return (shares @ value).transpose(1, 2), None


@pytest.mark.parametrize("causal", [False, True], ids=["whole", "causal"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
def test_attention_has_its_log_sum_exp_in_fp32(
    dtype: torch.dtype, causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the device's own path, and in blocks of seven rows by the path of devices without a kernel."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 3, 50, HEAD_DIM, generator=generator).to(DEVICE, dtype) * 2 for _ in range(3))
    logits = q.double() @ k.double().mT * HEAD_DIM**-0.5
    if causal:
        logits = logits.masked_fill(torch.ones(50, 50, dtype=torch.bool, device=DEVICE).triu(1), -torch.inf)
    expected = logits.softmax(-1) @ v.double(), logits.logsumexp(-1)
    monkeypatch.setattr(attention, "_BLOCK", 7 * 2 * 3 * 50 * 4)
    wide = q.float(), k.float(), v.float()
    for path in (attention.attend(q, k, v, causal=causal), attention._attend_in_blocks(*wide, causal=causal)):
        for found, exact in zip(path, expected, strict=True):
            assert found.dtype == torch.float32
            torch.testing.assert_close(found.double(), exact, rtol=1e-5, atol=1e-5)


def test_attention_over_nothing_has_no_weight() -> None:
    q, nothing = torch.ones(1, 2, 3, HEAD_DIM, device=DEVICE), torch.ones(1, 2, 0, HEAD_DIM, device=DEVICE)
    out, sums = attention.attend(q, nothing, nothing)
    assert not out.any() and (sums == -torch.inf).all()


def results(function: Any, prefix: int, tokens: int, kv_heads: int, dtype: torch.dtype, device: str) -> list[Tensor]:
    """The output, and the gradients of queries, keys and values, of the same numbers."""
    generator = torch.Generator().manual_seed(prefix + tokens)

    def drawn(heads: int, length: int) -> Tensor:
        # As a model has them: the heads of a token side by side.
        states = torch.randn(2, length, heads, HEAD_DIM, generator=generator).bfloat16().to(device, dtype)
        return states.transpose(1, 2).requires_grad_()

    query, key, value = drawn(QUERY_HEADS, tokens), drawn(kv_heads, prefix + tokens), drawn(kv_heads, prefix + tokens)
    weights = torch.randn(2, tokens, QUERY_HEADS, HEAD_DIM, generator=generator).to(device, dtype)
    module: Any = SimpleNamespace(num_key_value_groups=QUERY_HEADS // kv_heads, is_causal=True, training=False)
    mask = None
    if function is not attention.causal_attention:
        hidden = torch.ones(tokens, prefix + tokens, dtype=torch.bool, device=device).triu(prefix + 1)
        mask = torch.zeros(hidden.shape, dtype=dtype, device=device).masked_fill(hidden, -torch.inf)[None, None]
    out, _ = function(module, query, key, value, mask, scaling=0.11, dropout=0.0)
    return [out, *torch.autograd.grad(out, (query, key, value), weights)]


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize(("prefix", "tokens"), [(0, 90), (37, 50), (200, 2), (64, 1)])
def test_attention_without_a_mask_errs_at_most_twice_as_much_as_eager_attention(
    prefix: int, tokens: int, kv_heads: int
) -> None:
    exact = results(printed_attention, prefix, tokens, kv_heads, torch.float64, "cpu")
    same = results(attention.causal_attention, prefix, tokens, kv_heads, torch.float64, DEVICE)
    plain = results(eager_attention_forward, prefix, tokens, kv_heads, torch.bfloat16, "cpu")
    found = results(attention.causal_attention, prefix, tokens, kv_heads, torch.bfloat16, DEVICE)
    for wanted, equal, rounded, one in zip(exact, same, plain, found, strict=True):
        torch.testing.assert_close(equal.cpu(), wanted, rtol=1e-10, atol=1e-12)
        assert (one.cpu() - wanted).norm() <= 2.0 * (rounded - wanted).norm()


def test_another_device_or_precision_keeps_the_configured_attention() -> None:
    """A CPU keeps Transformers' SDPA and so the bytes of its results."""
    assert attention.implementation("sdpa", torch.bfloat16, "cpu") == "sdpa"
    assert attention.implementation("sdpa", torch.float32, "cuda") == "sdpa"
    assert attention.implementation("eager", torch.bfloat16, "cuda") == "eager"


@pytest.mark.skipif(DEVICE == "cpu", reason="only a GPU has flash kernels")
@pytest.mark.parametrize("head_dim", [128, 256])
@pytest.mark.parametrize("prefix", [0, 300])
def test_a_flash_kernel_runs_forward_and_backward(prefix: int, head_dim: int) -> None:
    assert attention.implementation("sdpa", torch.bfloat16, "cuda") == attention.NAME
    shapes = ((8, 200), (2, prefix + 200), (2, prefix + 200))
    query, key, value = (
        torch.randn(1, heads, length, head_dim, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        for heads, length in shapes
    )
    module: Any = SimpleNamespace(num_key_value_groups=4, is_causal=True, training=False)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
        out, _ = attention.causal_attention(module, query, key, value, None, scaling=head_dim**-0.5)
        out.sum().backward()
    names = [event.key.lower() for event in profiled.key_averages()]
    for direction in (("fwd", "fprop", "forward"), ("bwd", "bprop", "backward")):
        assert any("flash" in name and any(word in name for word in direction) for name in names), names
    assert not any("efficient_attention" in name or "attention_math" in name for name in names), names


def test_a_mask_stays_with_transformers() -> None:
    """Padded rows, and rows of several lengths in a decoding step."""
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(2, heads, 9, 16, generator=generator) for heads in (4, 2, 2))
    mask = torch.rand(2, 1, 9, 9, generator=generator) > 0.3
    mask |= torch.eye(9, dtype=torch.bool)
    module: Any = SimpleNamespace(num_key_value_groups=2, is_causal=True, training=False)
    found, _ = attention.causal_attention(module, query, key, value, mask, scaling=0.25)
    wanted, _ = sdpa_attention_forward(module, query, key, value, mask, scaling=0.25)
    assert torch.equal(found, wanted)


def small_model(architecture: str, implementation: str) -> Any:
    """A random model in FP64 whose attention is not uniform."""
    sizes: dict[str, Any] = dict(
        vocab_size=100, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, max_position_embeddings=128,
    )  # fmt: skip
    if architecture == "qwen3 with windows":
        sizes |= dict(use_sliding_window=True, sliding_window=5, max_window_layers=1)
    if architecture == "qwen3_5_text":
        sizes |= dict(
            layer_types=["linear_attention", "full_attention"], linear_num_key_heads=2, linear_num_value_heads=4,
            linear_key_head_dim=8, linear_value_head_dim=8,
        )  # fmt: skip
    torch.manual_seed(0)
    config = AutoConfig.for_model(architecture.split()[0], **sizes)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float64, attn_implementation=implementation)
    for parameter in model.parameters():
        if parameter.dim() == 2:
            torch.nn.init.normal_(parameter, std=0.2)
    return model.eval().to(DEVICE)


@pytest.mark.parametrize("case", ["rows", "padded", "static cache", "given mask"])
@pytest.mark.parametrize("architecture", ["qwen3", "qwen3_5_text", "llama", "qwen3 with windows"])
def test_a_model_computes_what_it_computes_with_eager_attention(architecture: str, case: str) -> None:
    """Two rows: a first pass, 6 tokens behind it, and one token. Eager attention has a softmax in FP32."""
    if (architecture, case) == ("qwen3 with windows", "given mask"):
        pytest.skip("windows have a mask of their own")
    ids = torch.randint(0, 100, (2, 16), generator=torch.Generator().manual_seed(0)).to(DEVICE)
    real = torch.ones_like(ids)
    if case == "padded":
        real[1, 3:6] = 0  # a row of nothing but padding has no softmax
    found = []
    for implementation in ("eager", attention.NAME):
        model = small_model(architecture, implementation)
        cache: Cache = DynamicCache(config=model.config)
        if case == "static cache":
            cache = StaticCache(config=model.config, max_cache_len=30)
        outputs = []
        for start, end in ((0, 9), (9, 15), (15, 16)):
            mask: Any = real[:, :end]
            if case == "given mask":  # here without the first key
                mask = torch.ones(2, 1, end - start, end, device=DEVICE, dtype=torch.bool).tril(start)
                mask[..., 0] = torch.eye(end - start, device=DEVICE, dtype=torch.bool)[:, 0] & (start == 0)
                mask = torch.zeros(mask.shape, dtype=torch.float64, device=DEVICE).masked_fill(~mask, -1e9)
                if getattr(model.config, "layer_types", None) is not None:
                    mask = dict.fromkeys(model.config.layer_types, mask) | {"linear_attention": None}
            outputs.append(model(ids[:, start:end], attention_mask=mask, past_key_values=cache, use_cache=True).logits)
        found.append(torch.cat(outputs, 1)[real.bool()])
    torch.testing.assert_close(found[1], found[0], rtol=1e-5, atol=1e-5)
