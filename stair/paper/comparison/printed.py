"""The paper's printed values: where each is printed, and its kind, which decides how ours is compared with it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from stair.paper.tidy import read_tidy


class Kind(StrEnum):
    """What a printed value is, and so which comparison applies."""

    RATE = "rate"
    """A share of sampled responses or of problems, in percent: the replication interval."""
    RESPONSES = "responses"
    """A count of sampled responses, which varies from run to run as a rate does: the replication interval."""
    DIFFERENCE = "difference"
    """A difference of two rates, in percentage points: the replication interval of the difference."""
    COUNT = "count"
    """A count of a data set or a design, the same in every run: equality."""
    SETTING = "setting"
    """A parameter or setting: equality."""
    REPLAY = "replay"
    """A statistic of the replay study: our block interval times the square root of two."""
    HARDWARE = "hardware"
    """Times, memory and bank lengths of the runtime study: both are printed, without a verdict."""


SAMPLED = frozenset({Kind.RATE, Kind.RESPONSES, Kind.DIFFERENCE})
"""The kinds that the sampling of responses decides."""
EXACT = frozenset({Kind.COUNT, Kind.SETTING})
"""The kinds that are compared by equality."""


class Rule(NamedTuple):
    """Patterns of an artifact, a metric and a unit, each of which must match whole."""

    artifact: str
    metric: str
    unit: str
    kind: Kind

    def matches(self, artifact: str, metric: str, unit: str) -> bool:
        """Whether a value has this rule's kind."""
        pairs = ((self.artifact, artifact), (self.metric, metric), (self.unit, unit))
        return all(re.fullmatch(pattern, text) for pattern, text in pairs)


_SCORES = "tab:(continuous-summary|turns-.*|lora-turns|lora-comparison|shared-t1|bank-prefix-accuracy)"
_CELLS = "nonempty replays.*|distinct nonempty replays|cells .*|empty-history references|connected source blocks.*"

RULES = (
    Rule(_SCORES, r"(Avg|Pass)@\d+", "%", Kind.RATE),
    Rule("tab:history-.*", "accuracy", "%", Kind.RATE),
    Rule("tab:history-.*", "n|correct", "responses", Kind.RESPONSES),
    Rule("tab:native-accuracy", "(wrong|correct) to (wrong|correct)", "responses", Kind.RESPONSES),
    Rule("tab:bank-prefix-accuracy", "truncated", r"inputs of \d+", Kind.RESPONSES),
    Rule("tab:native-accuracy", "net change", "pp", Kind.DIFFERENCE),
    Rule("tab:shared-t1", r"Avg@\d+ minus Native", "pp", Kind.DIFFERENCE),
    Rule("tab:lora-comparison|sec:continuous-results", r"(Avg|Pass)@\d+ gain( over Native)?", "pp", Kind.DIFFERENCE),
    Rule("tab:replay-design", "current problems|histories|sessions|source problems", "", Kind.COUNT),
    Rule("app:replay-construction", _CELLS, "", Kind.COUNT),
    Rule("app:method-gradients", "(training|validation) problems", "", Kind.COUNT),
    Rule("app:training-settings", "optimizer updates", "", Kind.COUNT),
    Rule("app:training-settings", "LoRA parameters over STAIR parameters", "", Kind.SETTING),
    Rule("tab:lora-comparison", "trainable parameters", "", Kind.SETTING),
    Rule("tab:controller-configuration", ".*", "", Kind.SETTING),
    Rule("tab:evaluation-decoding", ".*", "(tokens)?", Kind.SETTING),
    Rule("app:replay-construction", "(median|shortest|longest) .*history.*", "tokens", Kind.REPLAY),
    Rule("fig:(historical-computation|appendix-.*)", ".*", "%?", Kind.REPLAY),
    Rule("tab:bank-runtime|app:component-runtime", ".*", "MiB|GiB|ms|s|K tokens", Kind.HARDWARE),
)
"""One rule matches each printed value."""


def kind_of(artifact: str, metric: str, unit: str) -> Kind:
    """The kind of a printed value. Raises ValueError where no rule matches it."""
    for rule in RULES:
        if rule.matches(artifact, metric, unit):
            return rule.kind
    raise ValueError(f"{artifact}, {metric} ({unit or 'no unit'}): no kind; add a rule to {__name__}.RULES")


PAPER_VALUES = Path(__file__).parents[1] / "paper_values.csv"


class PrintedPlace(NamedTuple):
    """Where a number is printed, in the paper's spelling. Empty keys mean "over all" or "does not apply"."""

    artifact: str
    model: str
    benchmark: str
    condition: str
    turn: str
    group: str
    metric: str
    unit: str


@dataclass(frozen=True)
class Printed:
    """A printed value."""

    place: PrintedPlace
    text: str
    """The printed text."""

    @property
    def kind(self) -> Kind:
        """Which comparison applies."""
        return kind_of(self.place.artifact, self.place.metric, self.place.unit)

    @property
    def value(self) -> float:
        """The printed number."""
        return float(self.text)

    @property
    def rounding(self) -> float:
        """The last printed place; 0 for a whole number, which is exact."""
        digits = len(self.text.partition(".")[2])
        return 10.0**-digits if digits else 0.0


def printed_values() -> list[Printed]:
    """Every value of `paper_values.csv`, in its order."""
    return [
        Printed(PrintedPlace(**{key: row[key] for key in PrintedPlace._fields}), row["value"])
        for row in read_tidy(PAPER_VALUES)
    ]
