"""The decomposition of planted parts; test_statistics_of_a_replay compares it with loops."""

from __future__ import annotations

import numpy as np
import pytest

from stair.stages.replay.analysis.decomposition import decompose, displacement, energy


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
