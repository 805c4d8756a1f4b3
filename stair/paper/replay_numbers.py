"""The statistics of a replay under the paper's names: for figures, and for the numbers of the text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from stair.config.model import Config
from stair.config.replay import ReplayAnalysis
from stair.paper import paper_labels
from stair.stages.replay.analysis.statistics_table import Quantity, Statistic, read_statistics
from stair.statistics.grid import Gap
from stair.statistics.values import Value

GROUPS = ("group 1", "group 2")
DIRECTIONS = ("fit group 1, test group 2", "fit group 2, test group 1")

COLUMNS = ("layer", "depth", "k", "low", "high")
"""The columns of a replay figure's CSV besides the usual ones."""

SOURCES = {
    "user": "earlier user bodies",
    "assistant": "earlier assistant responses",
    "template": "earlier template and system positions",
    "current": "current-turn positions",
}
_OVERLAPS = {
    ("overlap", "raw"): "raw displacement",
    ("overlap", "additive"): "additive reconstruction",
    ("overlap", "interaction"): "interaction response",
    ("overlap", "whitened interaction"): "interaction response with shared whitening",
    ("shuffled overlap", "raw"): "Question-identity shuffle of raw displacement",
    ("shuffled overlap", "additive"): "Question-identity shuffle of the additive reconstruction",
    ("shuffled overlap", "interaction"): "Question-identity shuffle",
    ("shuffled overlap", "whitened interaction"): "Question-identity shuffle with shared whitening",
}
READS = {
    "assistant": "earlier-assistant read",
    "user": "earlier-user read",
    "template": "template and system read",
    "assistant, shuffled across histories": "assistant read shuffled across histories within a problem",
    "assistant, shuffled across problems": "assistant read shuffled across problems within a history",
}


@dataclass(frozen=True, slots=True)
class ReplayValue(Value):
    """A statistic of the replay as a reported number."""

    layer: int | None = None
    depth: int | None = None
    k: int | None = None


@dataclass(frozen=True)
class ReplayNumbers:
    """One model's statistics."""

    model: str
    benchmark: str
    layers: tuple[int, ...]
    """Layers with reads."""
    analysis: ReplayAnalysis
    depth: int
    statistics: tuple[Statistic, ...]

    @classmethod
    def of_files(cls, config: Config, model: str, files: Iterable[Path]) -> ReplayNumbers:
        """The statistics of some parts of a model's analysis.

        Raises:
            ValueError: a file is absent or has other columns.
        """
        replay = config.replay
        assert replay is not None and replay.analysis is not None, "the graph has no analysis then"
        statistics = tuple(each for file in files for each in read_statistics(file))
        return cls(model, replay.benchmark, replay.layers, replay.analysis, replay.depth, statistics)

    def curve(self, quantity: Quantity, of: str, group: str, k: int | None = None) -> list[Statistic]:
        """A statistic at every layer that has it."""
        wanted = (quantity, of, group, k)
        return [each for each in self.statistics if (each.quantity, each.of, each.group, each.k) == wanted]

    def at(
        self, quantity: Quantity, of: str, group: str, *, layer: int | None = None, k: int | None = None
    ) -> Statistic:
        """A statistic at one layer.

        Raises:
            ValueError: the files have none, because they were computed under other keys.
        """
        for each in self.curve(quantity, of, group, k):
            if each.layer == layer:
                return each
        keys = [f"{name} {key}" for name, key in (("layer", layer), ("k", k)) if key is not None]
        raise ValueError(
            f"the replay statistics of {self.model} have no {', '.join([f'{quantity} {of}'.strip(), group, *keys])}: they were "
            "computed under other keys of `replay`; run `stair replay-statistics` again"
        )

    @cached_property
    def last_layer(self) -> int:
        """The model's last layer."""
        return max(each.layer for each in self.statistics if each.layer is not None)

    def value(self, statistic: Statistic, artifact: str = "") -> ReplayValue:
        """A statistic under the paper's name for it."""
        low, high, _ = statistic.ends or (None, None, None)
        number = Gap(statistic.gap) if statistic.gap is not None else statistic.value
        assert number is not None
        if statistic.quantity == "size":
            number = int(number) if isinstance(number, float) else number
        return ReplayValue(
            *(self.model, self.benchmark, "", "", statistic.group, self._metric(statistic), number, statistic.unit),
            *(artifact, low, high, statistic.layer, self.depth, statistic.k),
        )

    def _metric(self, each: Statistic) -> str:
        where = f", layer {each.layer}"
        match each.quantity:
            case "size":
                return each.of
            case "attention mass":
                return f"attention mass on {SOURCES[each.of]}{where}"
            case "displacement norm":
                # The text gives this one as "approximately".
                about = " (approximate)" if each.layer == self.analysis.reported_layer else ""
                return f"median state displacement norm{where}{about}"
            case "total energy":
                return f"total displacement energy{where}"
            case "energy":
                return f"{each.of} energy fraction{where}"
            case "overlap" | "shuffled overlap":
                return f"neighborhood overlap, {_OVERLAPS[each.quantity, each.of]}, k={each.k}{where}"
            case "base R2":
                return f"R2 of the base features{where}"
            case "incremental R2":
                return f"incremental R2, {READS[each.of]}{where}"

    def printed(self) -> Iterator[ReplayValue]:
        """The statistics in the text of section 2 and appendices A.2, A.3 and A.6, each under the figure that it belongs to."""
        reported, first, k = self.analysis.reported_layer, self.layers[0], self.analysis.neighborhoods[0]
        keys: list[tuple[str, Quantity, str, int, int | None]] = [
            (paper_labels.HISTORICAL_COMPUTATION, "attention mass", "assistant", first, None),
            (paper_labels.HISTORICAL_COMPUTATION, "attention mass", "assistant", reported, None),
            (paper_labels.HISTORICAL_COMPUTATION, "displacement norm", "", reported, None),
            (paper_labels.HISTORICAL_COMPUTATION, "displacement norm", "", self.last_layer, None),
            (paper_labels.HISTORICAL_COMPUTATION, "energy", "interaction", reported, None),
            (paper_labels.HISTORICAL_COMPUTATION, "overlap", "interaction", reported, k),
            (paper_labels.HISTORICAL_COMPUTATION, "shuffled overlap", "interaction", reported, k),
            (paper_labels.NEIGHBORHOOD, "overlap", "raw", reported, k),
            (paper_labels.NEIGHBORHOOD, "overlap", "additive", reported, k),
            (paper_labels.READ_PREDICTION, "incremental R2", "assistant", first, None),
            (paper_labels.READ_PREDICTION, "incremental R2", "assistant, shuffled across histories", first, None),
        ]
        for artifact, quantity, of, layer, size in dict.fromkeys(keys):
            for group in DIRECTIONS if artifact == paper_labels.READ_PREDICTION else GROUPS:
                yield self.value(self.at(quantity, of, group, layer=layer, k=size), artifact)
