"""State displacement by a history (Eq. 1), and its additive decomposition over a balanced design (Eqs. 2 and 13 to 15)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def displacement(states: npt.NDArray[np.floating], references: npt.NDArray[np.floating]) -> Floats:
    """d(x, H) = h(x | H) - h(x | no history), FP64 [problems, histories, hidden].

    Args:
        states: [problems, histories, hidden] one layer's pooled states, FP32 or FP64.
        references: [problems, hidden] the same without history; ValueError if the shapes differ.
    """
    if states.ndim != 3 or references.shape != (states.shape[0], states.shape[2]):
        raise ValueError(f"states {states.shape} and references {references.shape} are not of the same problems")
    return np.subtract(states, references[:, None], dtype=np.float64)


def displacement_norms(displacements: Floats) -> Floats:
    """The Euclidean norm of each cell's displacement: [problems, histories, hidden] to [problems, histories]."""
    return np.sqrt(np.einsum("xhi,xhi->xh", displacements, displacements))


def median_displacement(norms: Floats) -> float:
    """The median over all cells at once of `displacement_norms` [problems, histories] (Figure 2B)."""
    return float(np.median(norms))


View = Literal["raw", "additive", "interaction"]
VIEWS: tuple[View, ...] = get_args(View)
"""Displacement itself, its reconstruction mu + a(x) + b(H), and e(x, H)."""


@dataclass(frozen=True)
class Energy:
    """Sums of squared norms over all cells. The four parts sum to the total."""

    total: float
    mean: float
    """problems x histories x |mu|^2"""
    problems: float
    """histories x the sum of |a(x)|^2"""
    histories: float
    """problems x the sum of |b(H)|^2"""
    interaction: float
    """The sum of |e(x, H)|^2."""


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

    def view(self, name: View) -> Floats:
        """[problems, histories, hidden] the coordinates of a view."""
        if name == "additive":
            return (self.mean + self.problems)[:, None] + self.histories
        return self.raw if name == "raw" else self.interaction

    @cached_property
    def energy(self) -> Energy:
        """Each part's energy, from its own terms; none is a difference of others."""
        problems, histories, _ = self.raw.shape
        return Energy(
            _energy(self.raw),
            problems * histories * _energy(self.mean),
            histories * _energy(self.problems),
            problems * _energy(self.histories),
            _energy(self.interaction),
        )


def decompose(displacements: Floats) -> Decomposition:
    """Decompose FP64 displacements [problems, histories, hidden] of a balanced design: every problem under every history."""
    by_problem, by_history = displacements.mean(axis=1), displacements.mean(axis=0)
    mean = by_problem.mean(axis=0)
    problems, histories = by_problem - mean, by_history - mean
    interaction = displacements - by_problem[:, None]
    interaction -= histories
    return Decomposition(displacements, mean, problems, histories, interaction)


def _energy(part: Floats) -> float:
    return float(np.vdot(part, part))
