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


def pairs(lengths: Sequence[int], blocks: Sequence[int], names: Sequence[str], count: int) -> list[tuple[int, int]]:
    """Every history is given as often as a resample has it; copies have equal names."""
    order = sorted(range(len(names)), key=lambda i: (lengths[i], names[i]))
    found = []
    for step in range(count):
        first = order[int(np.rint(np.linspace(0, len(order) - 1, count))[step])]
        best = None
        for other in order:
            if blocks[other] == blocks[first]:
                continue
            gap = abs(lengths[other] - lengths[first])
            # The order is by length, then name: what comes first wins a tie.
            if best is None or gap < abs(lengths[best] - lengths[first]):
                best = other
        assert best is not None
        found.append((first, best))
    return found


def neighborhood(
    view: Sequence[Sequence[Sequence[float]]],
    names: Sequence[str],
    anchor: int,
    candidates: Sequence[int],
    h: int,
    k: int,
) -> set[int]:
    """The k nearest candidates of a problem under history h."""
    ranked = sorted(candidates, key=lambda y: (squared(minus(view[y][h], view[anchor][h])), names[y]))
    return set(ranked[:k])


def overlap(
    view: Sequence[Sequence[Sequence[float]]],
    names: Sequence[str],
    folds: Sequence[Sequence[int]],
    pairs: Sequence[tuple[int, int]],
    k: int,
    shuffled: Sequence[Sequence[int]] | None = None,
) -> float:
    """The mean over anchors and folds of a pair, then over pairs; shuffled has each pair's pi by problem."""
    by_pair = []
    for number, (one, other) in enumerate(pairs):
        found = []
        for fold in folds:
            candidates = [x for x in range(len(names)) if x not in fold]
            for x in fold:
                y = x if shuffled is None else shuffled[number][x]
                first = neighborhood(view, names, x, candidates, one, k)
                found.append(len(first & neighborhood(view, names, y, candidates, other, k)) / k)
        by_pair.append(sum(found) / len(found))
    return sum(by_pair) / len(by_pair)


def whitened(projected: np.ndarray, candidates: Sequence[int]) -> np.ndarray:
    """Coordinates of all cells, whitened by the candidates' cells."""
    problems, histories, width = projected.shape
    cells = [projected[x, h] for x in candidates for h in range(histories)]
    mean = sum(cells) / len(cells)
    sigma = sum(np.outer(cell - mean, cell - mean) for cell in cells) / len(cells)
    rho = 1e-3 * sum(sigma[i, i] for i in range(width)) / width
    values, vectors = np.linalg.eigh(sigma + rho * np.eye(width))
    root = sum(np.outer(vectors[:, i], vectors[:, i]) / math.sqrt(values[i]) for i in range(width))
    found = np.empty_like(projected)
    for x in range(problems):
        for h in range(histories):
            found[x, h] = root @ (projected[x, h] - mean)
    return found
