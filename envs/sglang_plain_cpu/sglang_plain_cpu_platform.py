"""A CPU on which SGLang 0.5.23 computes by plain PyTorch, with its seeded sampling.

SGLang's own CPU path needs kernels of which there is no package. Attention and layers here are SGLang's PyTorch forms. Three
things have no such form and are substituted: the list of attention backends that deterministic mode accepts, the
batch-invariant matrix products (of blocks of rows, all of one size), and the hash that turns seed, position and column into
noise (the same function, in PyTorch).
"""

import contextlib

import torch
from sglang.srt.arg_groups.choices import add_deterministic_attention_backend_choices
from sglang.srt.platforms.cpu import CpuDeviceMixin
from sglang.srt.platforms.device_mixin import PlatformEnum
from sglang.srt.platforms.interface import PlatformCapabilities, SRTPlatform
from sglang_plain_cpu_products import make_products_rowwise

add_deterministic_attention_backend_choices(["torch_native"])

if not hasattr(torch.cpu, "device"):
    torch.cpu.device = lambda *_args: contextlib.nullcontext()

_MASK = 0xFFFFFFFF


def _mixed(state, block):
    """One round of MurmurHash3 (32 bits) in 64-bit integers."""
    block = (block * 0xCC9E2D51) & _MASK
    block = ((block << 15) | (block >> 17)) & _MASK
    block = (block * 0x1B873593) & _MASK
    state = state ^ block
    state = ((state << 13) | (state >> 19)) & _MASK
    return (state * 5 + 0xE6546B64) & _MASK


def murmur_hash32(seed, positions, columns):
    """MurmurHash3 of (seed, position, column), as SGLang's own kernel computes it.

    Args:
        seed: `[rows]` unsigned 64-bit.
        positions: `[rows]`.
        columns: `[columns]`.

    Returns:
        `[rows, columns]` int64 with values of 32 bits.
    """
    seed = seed.to(torch.int64)
    state = torch.zeros_like(seed)
    for block in (seed & _MASK, (seed >> 32) & _MASK, positions.to(torch.int64) & _MASK):
        state = _mixed(state, block)
    state = _mixed(state.unsqueeze(1), (columns.to(torch.int64) & _MASK).unsqueeze(0))
    state = state ^ 16  # the length in bytes
    state = state ^ (state >> 16)
    state = (state * 0x85EBCA6B) & _MASK
    state = state ^ (state >> 13)
    state = (state * 0xC2B2AE35) & _MASK
    return state ^ (state >> 16)


class PlainCpuPlatform(CpuDeviceMixin, SRTPlatform):
    """What SGLang asks of a platform."""

    _enum = PlatformEnum.OOT
    device_name = "cpu"
    device_type = "cpu"
    capabilities = PlatformCapabilities()

    def get_default_attention_backend(self):
        return "torch_native"

    def get_dispatch_key_name(self):
        return "native"

    def init_backend(self):
        import sglang.srt.batch_invariant_ops as package
        import sglang.srt.batch_invariant_ops.batch_invariant_ops as module

        def enable(*_args, **_options):
            """SGLang's own kernels are for GPUs."""
            make_products_rowwise()

        package.enable_batch_invariant_mode = module.enable_batch_invariant_mode = enable

    def post_load_model(self, model):
        import sglang.srt.layers.sampler as sampler

        sampler.murmur_hash32 = murmur_hash32
