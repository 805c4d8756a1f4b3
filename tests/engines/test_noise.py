"""Counter-based noise: the numbers themselves, and that they are uniform and independent."""

from __future__ import annotations

import torch
from scipy.stats import kstest

from stair.engines.noise import gumbel, uniform

MASK = (1 << 64) - 1


def mixed(x: int) -> int:
    """SplitMix64's finaliser in Python's integers."""
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & MASK
    return x ^ (x >> 31)


def expected(seed: int, step: int, token: int) -> float:
    base = mixed((seed + (step + 1) * 0x9E3779B97F4A7C15) & MASK)
    return ((mixed((base + (token + 1) * 0xD1B54A32D192ED03) & MASK) >> 11) + 0.5) / 2**53


def test_the_numbers_are_those_of_the_written_formula() -> None:
    seeds, steps = [0, 1, 2**62 + 12345, 2**63 - 1], [0, 1, 7, 81919]
    tokens = [0, 5, 151935, 248319]
    found = uniform(torch.tensor(seeds), torch.tensor(steps), torch.tensor([tokens] * 4))
    assert found.tolist() == [
        [expected(seed, step, token) for token in tokens] for seed, step in zip(seeds, steps, strict=True)
    ]


def test_a_number_depends_on_seed_step_and_token_alone() -> None:
    seeds, steps, ids = torch.arange(6), torch.arange(6) * 3, torch.arange(40).repeat(6, 1)
    together = gumbel(seeds, steps, ids)
    order = torch.randperm(40, generator=torch.Generator().manual_seed(0))
    assert torch.equal(gumbel(seeds, steps, ids[:, order]), together[:, order])
    for row in range(6):
        assert torch.equal(gumbel(seeds[row : row + 1], steps[row : row + 1], ids[:1]), together[row : row + 1])


def test_the_numbers_are_uniform_over_seeds_steps_and_tokens() -> None:
    many = 20_000
    counting = torch.arange(many)
    zero = torch.zeros(many, dtype=torch.long)
    for seeds, steps, ids in ((counting, zero, zero), (zero, counting, zero), (zero[:1], zero[:1], counting)):
        found = uniform(seeds, steps, ids[:, None] if ids is zero else ids[None]).flatten()
        assert len(found) == many
        assert float(found.min()) > 0.0 and float(found.max()) < 1.0
        assert kstest(found.numpy(), "uniform").pvalue > 1e-3
        neighbours = torch.corrcoef(torch.stack([found[:-1], found[1:]]))[0, 1]
        assert abs(float(neighbours)) < 0.03


def test_gumbel_noise_is_finite_at_both_ends() -> None:
    found = gumbel(torch.arange(5000), torch.zeros(5000, dtype=torch.long), torch.zeros(5000, 1, dtype=torch.long))
    assert torch.isfinite(found).all()
    assert abs(float(found.mean()) - 0.5772) < 0.05
