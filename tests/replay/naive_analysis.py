"""The analysis as the paper writes it: loops over problems, histories and coordinates, without the library."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import numpy as np
from scipy import stats

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


def history_masses(masses: np.ndarray, layer: int, category: int) -> Vector:
    """Each history's median over problems."""
    problems, histories = masses.shape[:2]
    return [statistics.median(float(masses[x, h, layer, category]) for x in range(problems)) for h in range(histories)]


def quantile(values: Sequence[float], share: float) -> float:
    """Linear between the two values beside the place `share` of the way from the least to the greatest."""
    ordered, place = sorted(values), share * (len(values) - 1)
    below = math.floor(place)
    above = min(below + 1, len(values) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def percentage_interval(estimate: float, resamples: Sequence[float], blocks: int) -> tuple[float, float]:
    """The 95% interval of a percentage: the resamples' distances from their median, wider by what few blocks lose."""
    wider = math.sqrt(blocks / (blocks - 1)) * stats.t.ppf(0.975, blocks - 1) / stats.norm.ppf(0.975)
    low, middle, high = (quantile(resamples, share) for share in (0.025, 0.5, 0.975))
    return max(0.0, estimate - wider * (middle - low)), min(100.0, estimate + wider * (high - middle))


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


def read_scores(
    fit: tuple[Sequence[Sequence[float]], Sequence[Sequence[float]]],
    test: tuple[Sequence[Sequence[float]], Sequence[Sequence[float]]],
    kept: int,
) -> float:
    """R^2 of the first `kept` features on the test cells; a group is its cells' features and targets."""
    xs, ys = fit
    n, outputs = len(xs), len(ys[0])
    means = [math.fsum(x[j] for x in xs) / n for j in range(kept)]
    spreads = [math.sqrt(math.fsum((x[j] - means[j]) ** 2 for x in xs) / n) for j in range(kept)]

    def standardized(x: Sequence[float]) -> Vector:
        return [1.0] + [(x[j] - means[j]) / spreads[j] if spreads[j] else 0.0 for j in range(kept)]

    # Least squares with one further row a feature: sqrt(n) times its slope, whose target is zero.
    rows = [standardized(x) for x in xs]
    rows += [[0.0] + [math.sqrt(n) if i == j else 0.0 for i in range(kept)] for j in range(kept)]
    slopes = np.linalg.lstsq(np.array(rows), np.array([*ys, *[[0.0] * outputs] * kept]), rcond=None)[0]
    error = total = 0.0
    for output in range(outputs):
        level = math.fsum(y[output] for y in test[1]) / len(test[1])
        for x, y in zip(*test, strict=True):
            guess = math.fsum(a * b for a, b in zip(standardized(x), slopes[:, output], strict=True))
            error += (y[output] - guess) ** 2
            total += (y[output] - level) ** 2
    return 1 - error / total


def features(
    projection: np.ndarray, u: np.ndarray, reference: np.ndarray, length: int, masses: np.ndarray, read: np.ndarray
) -> Vector:
    """One cell's features, the read's last."""

    def projected(vector: np.ndarray) -> Vector:
        return [math.fsum(float(p) * float(v) for p, v in zip(row, vector, strict=True)) for row in projection]

    change = [float(a) - float(b) for a, b in zip(u, reference, strict=True)]
    return [
        *projected(reference),
        *projected(np.array(change)),
        math.log(1 + length),
        *(float(mass) for mass in masses[:3]),
        *projected(read),
    ]
