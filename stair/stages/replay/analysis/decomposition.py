"""State displacement by a history (Eq. 1), and its additive decomposition over a balanced design (Eqs. 2 and 13 to 15)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def displacement(states: npt.NDArray[np.floating], references: npt.NDArray[np.floating]) -> Floats:
    """d(x, H) = h(x | H) - h(x | no history), FP64 [problems, histories, hidden].

    Args:
        states: [problems, histories, hidden] one layer's pooled states, FP32 or FP64.
        references: [problems, hidden] the same without history.
    """
    return np.subtract(states, references[:, None], dtype=np.float64)


def displacement_norms(displacements: Floats) -> Floats:
    """The Euclidean norm of each cell's displacement: [problems, histories, hidden] to [problems, histories]."""
    return np.sqrt(np.einsum("xhi,xhi->xh", displacements, displacements))


VIEWS = ("raw", "additive", "interaction")
"""Displacement itself, its reconstruction mu + a(x) + b(H), and e(x, H)."""


@dataclass(frozen=True)
class Decomposition:
    """d(x, H) = mu + a(x) + b(H) + e(x, H), all FP64."""

    raw: Floats
    """[problems, histories, hidden]: d"""
    mean: Floats
    """[hidden]: mu"""
    problems: Floats
    """[problems, hidden]: a"""
    histories: Floats
    """[histories, hidden]: b"""
    interaction: Floats
    """[problems, histories, hidden]: e"""

    def view(self, name: str) -> Floats:
        """[problems, histories, hidden] the coordinates of a view."""
        if name == "additive":
            return (self.mean + self.problems)[:, None] + self.histories
        return self.raw if name == "raw" else self.interaction

    def energies(self) -> dict[str, float]:
        """Sums of squared norms over all cells, of each part from its own terms. The parts sum to the displacement's."""
        problems, histories, _ = self.raw.shape
        return {
            "mean": problems * histories * energy(self.mean),
            "problems": histories * energy(self.problems),
            "histories": problems * energy(self.histories),
            "interaction": energy(self.interaction),
        }


def decompose(displacements: Floats) -> Decomposition:
    """Decompose FP64 displacements [problems, histories, hidden] of a balanced design: every problem under every history."""
    by_problem, by_history = displacements.mean(axis=1), displacements.mean(axis=0)
    mean = by_problem.mean(axis=0)
    problems, histories = by_problem - mean, by_history - mean
    interaction = displacements - by_problem[:, None]
    interaction -= histories
    return Decomposition(displacements, mean, problems, histories, interaction)


def energy(part: Floats) -> float:
    """The sum of the squares of all numbers."""
    return float(np.vdot(part, part))
