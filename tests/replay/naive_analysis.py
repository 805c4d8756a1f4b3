"""The analysis as the paper writes it: loops over problems, histories and coordinates, without the library."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import numpy as np

Vector = list[float]


def minus(one: Sequence[float], other: Sequence[float]) -> Vector:
    return [a - b for a, b in zip(one, other, strict=True)]


def plus(*vectors: Sequence[float]) -> Vector:
    return [sum(parts) for parts in zip(*vectors, strict=True)]


def scaled(factor: float, vector: Sequence[float]) -> Vector:
    return [factor * part for part in vector]


def squared(vector: Sequence[float]) -> float:
    return math.fsum(part * part for part in vector)


def displacements(states: np.ndarray, references: np.ndarray) -> list[list[Vector]]:
    """By problem, then history."""
    return [
        [minus(cell.astype(float).tolist(), reference.astype(float).tolist()) for cell in row]
        for row, reference in zip(states, references, strict=True)
    ]


def parts(cells: list[list[Vector]]) -> tuple[Vector, list[Vector], list[Vector], list[list[Vector]]]:
    """mu, a, b and e; cells of a copied history are simply more cells."""
    n, m = len(cells), len(cells[0])
    mu = scaled(1 / (n * m), plus(*(cell for row in cells for cell in row)))
    a = [minus(scaled(1 / m, plus(*row)), mu) for row in cells]
    b = [minus(scaled(1 / n, plus(*(row[h] for row in cells))), mu) for h in range(m)]
    e = [[minus(minus(minus(cells[x][h], mu), a[x]), b[h]) for h in range(m)] for x in range(n)]
    return mu, a, b, e


def interaction_fraction(cells: list[list[Vector]]) -> float:
    e = parts(cells)[3]
    return math.fsum(squared(c) for row in e for c in row) / math.fsum(squared(c) for row in cells for c in row)


def median_mass(masses: np.ndarray, layer: int, category: int) -> float:
    problems, histories = masses.shape[:2]
    return statistics.median(
        statistics.median(float(masses[x, h, layer, category]) for x in range(problems)) for h in range(histories)
    )


def median_norm(cells: list[list[Vector]]) -> float:
    return statistics.median(math.sqrt(squared(cell)) for row in cells for cell in row)
