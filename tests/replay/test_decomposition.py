"""Displacement and its decomposition, beside loops and planted parts."""

from __future__ import annotations

import numpy as np
import pytest

from stair.stages.replay.analysis.decomposition import decompose, displacement, energy
from tests.replay import naive_analysis as naive


def random_states(problems: int = 7, histories: int = 5, hidden: int = 6) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(1)
    states = generator.normal(3, 1, (problems, histories, hidden)).astype(np.float32)
    return states, generator.normal(0, 2, (problems, hidden)).astype(np.float32)


def test_every_part_equals_the_loops() -> None:
    states, references = random_states()
    cells = naive.displacements(states, references)
    mu, a, b, e = naive.parts(cells)
    found = decompose(displacement(states, references))
    for part, wanted in (
        (found.raw, cells),
        (found.mean, mu),
        (found.problems, a),
        (found.histories, b),
        (found.interaction, e),
    ):
        assert part.dtype == np.float64
        np.testing.assert_allclose(part, wanted, rtol=0, atol=1e-13)
    additive = [[naive.plus(mu, a[x], b[h]) for h in range(5)] for x in range(7)]
    np.testing.assert_allclose(found.view("additive"), additive, rtol=0, atol=1e-13)
    np.testing.assert_allclose(found.view("additive") + found.view("interaction"), found.view("raw"), atol=1e-13)
    energies, total = found.energies(), energy(found.raw)
    assert total == pytest.approx(sum(naive.squared(c) for row in cells for c in row), rel=1e-13)
    assert energies["mean"] == pytest.approx(35 * naive.squared(mu), rel=1e-13)
    assert energies["problems"] == pytest.approx(5 * sum(map(naive.squared, a)), rel=1e-12)
    assert energies["histories"] == pytest.approx(7 * sum(map(naive.squared, b)), rel=1e-12)
    assert energies["interaction"] / total == pytest.approx(naive.interaction_fraction(cells), rel=1e-12)
    assert sum(energies.values()) == pytest.approx(total, rel=1e-13)


def test_additive_states_have_no_interaction() -> None:
    generator = np.random.default_rng(2)
    references = generator.normal(0, 30, (32, 64))
    moved = generator.normal(2, 5, (32, 1, 64)) + generator.normal(1, 5, (1, 8, 64))
    states = (references[:, None] + moved).astype(np.float32)
    parts = decompose(displacement(states, references.astype(np.float32)))
    shares = {name: own / energy(parts.raw) for name, own in parts.energies().items()}
    assert shares["interaction"] < 1e-9
    assert shares["problems"] > 0.1
    assert shares["histories"] > 0.1


@pytest.mark.parametrize("fraction", [0.007, 0.3])
def test_a_planted_energy_fraction_is_recovered(fraction: float) -> None:
    generator = np.random.default_rng(3)
    problems, histories, hidden = 64, 32, 128
    additive = generator.normal(0, 1, (problems, 1, hidden)) + generator.normal(0, 1, (1, histories, hidden))
    spread = np.sqrt(fraction / (1 - fraction) * np.square(additive).mean())
    planted = generator.normal(0, spread, (problems, histories, hidden))
    found = decompose(additive + planted)
    # Means take one degree of freedom from each problem and history.
    lost = (1 - 1 / problems) * (1 - 1 / histories)
    assert found.energies()["interaction"] / energy(found.raw) == pytest.approx(fraction * lost, rel=0.02)
