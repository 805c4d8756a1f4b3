"""Decomposition, displacement and masses, beside loops and planted parts."""

from __future__ import annotations

import numpy as np
import pytest

from stair.stages.replay.analysis.attention_masses import history_masses, median_masses
from stair.stages.replay.analysis.decomposition import (
    VIEWS,
    decompose,
    displacement,
    displacement_norms,
    median_displacement,
)
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
    assert [found.view(name).shape for name in VIEWS] == [(7, 5, 6)] * 3
    energy = found.energy
    assert energy.total == pytest.approx(sum(naive.squared(c) for row in cells for c in row), rel=1e-13)
    assert energy.mean == pytest.approx(35 * naive.squared(mu), rel=1e-13)
    assert energy.problems == pytest.approx(5 * sum(map(naive.squared, a)), rel=1e-12)
    assert energy.histories == pytest.approx(7 * sum(map(naive.squared, b)), rel=1e-12)
    assert energy.interaction / energy.total == pytest.approx(naive.interaction_fraction(cells), rel=1e-12)
    parts = energy.mean + energy.problems + energy.histories + energy.interaction
    assert parts == pytest.approx(energy.total, rel=1e-13)


def test_additive_states_have_no_interaction() -> None:
    generator = np.random.default_rng(2)
    references = generator.normal(0, 30, (32, 64))
    moved = generator.normal(2, 5, (32, 1, 64)) + generator.normal(1, 5, (1, 8, 64))
    states = (references[:, None] + moved).astype(np.float32)
    energy = decompose(displacement(states, references.astype(np.float32))).energy
    assert energy.interaction / energy.total < 1e-9
    assert energy.problems / energy.total > 0.1
    assert energy.histories / energy.total > 0.1


@pytest.mark.parametrize("fraction", [0.007, 0.3])
def test_a_planted_energy_fraction_is_recovered(fraction: float) -> None:
    generator = np.random.default_rng(3)
    problems, histories, hidden = 64, 32, 128
    additive = generator.normal(0, 1, (problems, 1, hidden)) + generator.normal(0, 1, (1, histories, hidden))
    spread = np.sqrt(fraction / (1 - fraction) * np.square(additive).mean())
    planted = generator.normal(0, spread, (problems, histories, hidden))
    found = decompose(additive + planted).energy
    # Means take one degree of freedom from each problem and history.
    lost = (1 - 1 / problems) * (1 - 1 / histories)
    assert found.interaction / found.total == pytest.approx(fraction * lost, rel=0.02)


def test_displacement_refuses_references_of_other_problems() -> None:
    states, references = random_states()
    with pytest.raises(ValueError, match="not of the same problems"):
        displacement(states, references[1:])


def test_the_median_norm_is_over_all_cells_at_once() -> None:
    states, references = random_states()
    found = median_displacement(displacement_norms(displacement(states, references)))
    assert found == pytest.approx(naive.median_norm(naive.displacements(states, references)), rel=1e-13)
    # The median of medians would be 1.
    assert median_displacement(np.array([[1.0, 1.0, 9.0], [0.0, 1.0, 8.0], [7.0, 8.0, 9.0]])) == 7.0


def test_masses_are_medians_of_medians() -> None:
    masses = np.random.default_rng(4).dirichlet([1, 1, 1, 1], (6, 4, 3)).astype(np.float32)
    found = median_masses(history_masses(masses))
    wanted = [[naive.median_mass(masses, layer, category) for category in range(4)] for layer in range(3)]
    np.testing.assert_allclose(found, wanted, rtol=1e-14)
    one = median_masses(history_masses(masses[:, :, 1]))
    np.testing.assert_array_equal(one, found[1])
