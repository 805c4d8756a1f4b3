"""The controls of appendix C.4 inside both architectures, each beside its naive formula at equal hidden states."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
import torch
from method_cases import LAYERS, Case
from test_attachment import column_positions, logits, read_of, rotate
from torch import Tensor
from transformers import PreTrainedModel

from stair.method import Attachment, differential_read, permuted_order
from stair.models.attention_modules import per_head, query_source

EPSILON = 1e-2
"""Greater than the paper's, so that eps / N can be told from eps / M."""


@dataclasses.dataclass
class Layer:
    """The first controlled layer: what its attention has before any control acts, so the same for all controls."""

    model: PreTrainedModel
    case: Case
    queries: Tensor
    """[1, query_heads, controlled tokens, head_dim], normalised and not rotated."""
    gate: Tensor | None
    native: Tensor
    keys: Tensor
    """[1, kv_heads, bank, head_dim], not rotated."""
    values: Tensor

    @classmethod
    def of(cls, model: PreTrainedModel, case: Case) -> Layer:
        attention, seen = model.model.layers[LAYERS[0]].self_attn, {}
        handles = [
            attention.register_forward_hook(lambda _, args, out: seen.update(output=out[0])),
            query_source(attention).register_forward_hook(lambda _, args, out: seen.update(queries=per_head(out, 16))),
            attention.q_proj.register_forward_hook(lambda _, args, out: seen.update(projected=out)),
        ]
        logits(model, case.ids)
        for handle in handles:
            handle.remove()
        tokens = case.ids.shape[1]
        gate = None
        if model.config.model_type == "qwen3_5_text":
            gate = torch.sigmoid(seen["projected"].view(1, tokens, 4, 32)[..., 16:].flatten(2))[:, case.start :]
        keys, values = (
            torch.cat([states[0] for states in parts], 1)[None]
            for parts in zip(*((s.keys, s.values) for s in case.bank.segments), strict=True)
        )
        return cls(model, case, seen["queries"][:, case.start :].transpose(1, 2), gate, seen["output"], keys, values)

    def rotated(self, x: Tensor, positions: Tensor) -> Tensor:
        return rotate(self.model, x, positions[None])[1]

    def projected(self, z: Tensor) -> Tensor:
        """W_O (g * z)."""
        z = z.transpose(1, 2).flatten(2)
        weight = self.model.model.layers[LAYERS[0]].self_attn.o_proj.weight
        return (z if self.gate is None else z * self.gate) @ weight.T

    def update(self, **options: object) -> Tensor:
        """What a control adds to the attention output at the controlled tokens."""
        control = read_of(self.case, smoothing=EPSILON, **options)
        seen: list[Tensor] = []
        attention = self.model.model.layers[LAYERS[0]].self_attn
        tokens = self.case.ids.shape[1]
        handle = attention.register_forward_hook(lambda _, args, out: seen.append(out[0]))
        with Attachment(self.model, LAYERS).controlling([control], column_positions(tokens)):
            logits(self.model, self.case.ids)
        handle.remove()
        return (seen[0] - self.native)[:, self.case.start :]

    def naive(self, entries: int, base: int, values: Tensor | None = None, order: Tensor | None = None) -> Tensor:
        """The differential read of the first `entries`, queries at base + p, as the paper's equations have it."""
        keys = self.rotated(self.keys[:, :, :entries], torch.arange(entries))
        queries = self.rotated(self.queries, torch.arange(self.case.start, self.case.ids.shape[1]) + base)
        values = (self.values if values is None else values)[:, :, :entries]
        return differential_read(
            queries, keys, values, self.case.reflector.normals[0], smoothing=EPSILON, backend="naive", value_order=order
        )


def equal(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-4)


@pytest.fixture
def layer(model: PreTrainedModel, case: Case) -> Layer:
    return Layer.of(model, case)


@torch.no_grad()
@pytest.mark.parametrize("entries", [5, 23, 30])
def test_a_prefix_keeps_key_positions_and_the_query_at_the_full_length(layer: Layer, entries: int) -> None:
    """Keys at 0..N-1, the query at M + p, epsilon / N; a query at N + p reads otherwise."""
    full = layer.case.bank.tokens
    found = layer.update(limit=entries)
    equal(found, layer.projected(layer.naive(entries, full)))
    assert (found - layer.projected(layer.naive(entries, entries))).abs().max() > 1e-3


@torch.no_grad()
def test_epsilon_is_spread_over_the_entries_that_are_read(layer: Layer) -> None:
    """The reference of a prefix: (1 - eps) softmax + eps / N over its own N entries."""
    entries, full = 5, layer.case.bank.tokens
    keys = layer.rotated(layer.keys[:, :, :entries], torch.arange(entries)).repeat_interleave(2, 1)
    values = layer.values[:, :, :entries].repeat_interleave(2, 1)
    queries = layer.rotated(layer.queries, torch.arange(layer.case.start, 19) + full)
    normals = torch.nn.functional.normalize(layer.case.reflector.normals[0], dim=-1)[None, :, None]
    reflected = queries - 2 * (queries * normals).sum(-1, keepdim=True) * normals
    logits_of = [(q @ keys.mT) * 16**-0.5 for q in (queries, reflected)]
    reference = (1 - EPSILON) * logits_of[0].softmax(-1) + EPSILON / entries
    weights = (reference.log() + logits_of[1] - logits_of[0]).softmax(-1)
    equal(layer.update(limit=entries), layer.projected((weights - reference) @ values))


@torch.no_grad()
def test_direct_minus_the_reference_is_stair_at_equal_hidden_states(layer: Layer) -> None:
    """The full reflected read, and not its difference: what is missing is the reference read r^ref (Eq. 9)."""
    full = layer.case.bank.tokens
    keys = layer.rotated(layer.keys, torch.arange(full)).repeat_interleave(2, 1)
    queries = layer.rotated(layer.queries, torch.arange(layer.case.start, 19) + full)
    reference = (1 - EPSILON) * (queries @ keys.mT * 16**-0.5).softmax(-1) + EPSILON / full
    read = layer.projected(reference @ layer.values.repeat_interleave(2, 1))
    equal(layer.update(variant="direct") - read, layer.update())
    assert read.abs().max() > 1e-3


@torch.no_grad()
def test_a_permutation_pairs_each_key_with_another_value_of_its_head(layer: Layer) -> None:
    """Keys, positions and controller stay; undone by its inverse; other answers, of other seeds, are read otherwise."""
    full, device = layer.case.bank.tokens, layer.values.device
    order = permuted_order(7, LAYERS[0], 2, full, device)[None]
    permuted = layer.values.gather(2, order[..., None].expand_as(layer.values))
    assert torch.equal(permuted.sort(2).values, layer.values.sort(2).values)
    digests = [segment.digest for segment in layer.case.bank.segments]
    found = layer.update(permutation_seed=7)
    assert [segment.digest for segment in layer.case.bank.segments] == digests
    equal(found, layer.projected(layer.naive(full, full, permuted)))
    equal(layer.projected(layer.naive(full, full, permuted, order.argsort(-1))), layer.update())
    updates: list[Callable[[], Tensor]] = [layer.update, lambda: layer.update(permutation_seed=8)]
    assert all((found - other()).abs().max() > 1e-3 for other in updates)
