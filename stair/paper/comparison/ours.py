"""A run's numbers under the places where the paper prints them, and where else a run has such a number."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stair.config.model import Config
from stair.core import SHARED_T1
from stair.paper import paper_labels
from stair.paper.comparison.printed import PrintedPlace
from stair.paper.labels import Labels
from stair.paper.tidy import AGAIN, read_tidy


@dataclass(frozen=True)
class Ours:
    """One number of a run; a gap has no value."""

    value: float | None
    low: float | None
    high: float | None
    """The run's own interval, for numbers whose CSV has the columns `low` and `high`."""
    source: str
    """The CSV's name."""


def read_ours(files: Iterable[Path], config: Config) -> dict[PrintedPlace, Ours]:
    """The numbers of table and figure CSVs.

    A model or benchmark that stands for one of the paper's has the paper's key and a label of its own; here it has the
    paper's label.

    Raises:
        ValueError: two files give one place different numbers, or a file cannot be read.
    """
    spelling = _Spelling(config)
    numbers: dict[PrintedPlace, Ours] = {}
    for file in sorted(files):
        for row in read_tidy(file):
            value, low, high = (_number(row, column, file) for column in ("value", "low", "high"))
            ours = Ours(value, low, high, file.name)
            place = spelling.place(row)
            known = numbers.get(place)
            if known is None or known.value is None or (known.low is None and ours.value == known.value):
                numbers[place] = ours
            elif ours.value is not None and abs(ours.value - known.value) > 1e-9 * max(1.0, abs(known.value)):
                raise ValueError(
                    f"{file} gives {ours.value} where {known.source} gives {known.value} ({', '.join(filter(None, place))}); "
                    f"delete both and {AGAIN}"
                )
    return numbers


class _Spelling:
    """From a run's labels to the paper's."""

    def __init__(self, config: Config) -> None:
        labels = Labels.of(config)
        self._pooled = labels.pooled()
        self._models = _renamed(labels.models, paper_labels.MODELS)
        self._benchmarks = _renamed(labels.benchmarks, paper_labels.BENCHMARKS)
        self._conditions = _renamed(labels.conditions, paper_labels.CONDITIONS)
        # The study with a shared T1 history has labels of its own.
        self._study = _renamed(Labels.of(config, SHARED_T1).conditions, paper_labels.CONDITIONS)

    def place(self, row: Mapping[str, str]) -> PrintedPlace:
        """A row's place, in the paper's spelling."""
        place = PrintedPlace(**{key: row[key] for key in PrintedPlace._fields})
        pooled = place.artifact == paper_labels.POOLED and place.model == self._pooled
        shared = place.artifact in paper_labels.SHARED
        conditions = self._study if shared else self._conditions
        metric, study, benchmark = place.metric.partition(", shared-T1 ")  # the only metric that names a benchmark
        return place._replace(
            metric=f"{metric}{study}{self._benchmarks.get(benchmark, benchmark)}",
            model="" if pooled else self._models.get(place.model, place.model),
            benchmark=self._benchmarks.get(place.benchmark, place.benchmark),
            condition=conditions.get(place.condition, place.condition),
        )


def _renamed(labels: Mapping[str, str], paper: Mapping[str, str]) -> dict[str, str]:
    return {label: paper[key] for key, label in labels.items() if key in paper}


def _number(row: Mapping[str, str], column: str, file: Path) -> float | None:
    text = row.get(column)
    try:
        return float(text) if text else None
    except ValueError:
        raise ValueError(f"{file}: the number of {row['metric']!r} is {text!r}; delete the file and {AGAIN}") from None


_SIZE = re.compile(r"\b(layer |k=)(\d+)")


def elsewhere(place: PrintedPlace, numbers: Iterable[PrintedPlace]) -> str:
    """The layers, sizes or banks at which a run has a number, as the end of a reason; empty where it has none.

    Args:
        place: the number that the run lacks; of it the artifact, model, group and metric count.
        numbers: the places of the run's numbers, in the paper's spelling.
    """
    other = [each for each in numbers if (each.model, each.group) == (place.model, place.group)]
    if place.artifact == paper_labels.BANK_RUNTIME:
        same = [each for each in other if (each.artifact, each.metric) == (place.artifact, place.metric)]
        found = dict.fromkeys(each.condition for each in same)
        return f"; it has this number for {', '.join(found)}" if found else ""
    if not _SIZE.search(place.metric):
        return ""
    wanted = _SIZE.sub(r"\1#", place.metric)
    sizes: dict[str, set[int]] = {}
    for each in other:
        if _SIZE.sub(r"\1#", each.metric) == wanted:
            for name, size in _SIZE.findall(each.metric):
                sizes.setdefault(name, set()).add(int(size))
    listed = " and ".join(_listed(name, sorted(found)) for name, found in sizes.items())
    return f"; it has this number at {listed}" if listed else ""


def _listed(name: str, sizes: Sequence[int]) -> str:
    """`layer 7`, `layers 0 to 11`, `k=2, 4, 8`."""
    plural = name.replace("layer ", "layers ") if len(sizes) > 1 else name
    if len(sizes) > 3 and sizes[-1] - sizes[0] == len(sizes) - 1:
        return f"{plural}{sizes[0]} to {sizes[-1]}"
    return f"{plural}{', '.join(map(str, sizes))}"
