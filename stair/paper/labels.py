"""From keys to labels: files and rows carry keys, tables and figures carry labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from stair.config.model import Config
from stair.core import EVALUATION, ConditionName
from stair.paper import paper_labels
from stair.statistics.shared_t1_metrics import PAPER_SEEDS


@dataclass(frozen=True)
class Labels:
    """The labels of models, benchmarks and conditions; a key without a label stands for itself."""

    models: Mapping[str, str] = field(default_factory=dict)
    benchmarks: Mapping[str, str] = field(default_factory=dict)
    conditions: Mapping[str, str] = field(default_factory=dict)
    mathematical: frozenset[str] = frozenset()
    """Benchmarks of the pooled mathematical comparison."""
    marked: frozenset[str] = frozenset()
    """Benchmarks some of whose problems are left out: they carry a dagger."""
    repeats: Mapping[str, str] = field(default_factory=lambda: dict(paper_labels.REPEATS))
    """Repeat conditions, each with the condition that it repeats: their differences are noise."""
    names: Mapping[str, ConditionName] = field(default_factory=dict)
    """Family, seed and prefix of the configured conditions, by key."""
    note: str | None = None
    """A sentence under every table of this run."""

    @classmethod
    def of(cls, config: Config, study: str = EVALUATION) -> Labels:
        """The labels of a configured run, with those of a study's conditions."""
        conditions = config.conditions_of(study)
        return cls(
            {key: item.label for key, item in config.models.items()},
            {key: item.label for key, item in config.benchmarks.items()},
            {key: item.label for key, item in conditions.items()},
            frozenset(key for key, item in config.benchmarks.items() if item.mathematical),
            frozenset(key for key, item in config.benchmarks.items() if item.exclude_ids),
            {key: item.repeats for key, item in conditions.items() if item.repeats is not None},
            {key: item.name(key) for key, item in conditions.items()},
            config.note,
        )

    def drawn(self) -> Labels:
        """The same labels for a drawing, in which `$` would begin mathematics."""
        texts = (self.models, self.benchmarks, self.conditions)
        models, benchmarks, conditions = (
            {key: text.replace("$", r"\$") for key, text in each.items()} for each in texts
        )
        note = self.note and self.note.replace("$", r"\$")
        return replace(self, models=models, benchmarks=benchmarks, conditions=conditions, note=note)

    @property
    def notes(self) -> tuple[str, ...]:
        """The note, where there is one."""
        return (self.note,) if self.note else ()

    def model(self, key: str) -> str:
        """A model's label."""
        return self.models.get(key, key)

    def pooled(self) -> str:
        """What stands for the model where all are pooled: nothing, as in the paper.

        In a run with a note, whose models are not the paper's, their labels: no file of numbers goes without saying it.
        """
        return " + ".join(self.models.values()) if self.note else ""

    def benchmark(self, key: str) -> str:
        """A benchmark's label."""
        return self.benchmarks.get(key, key)

    def name(self, key: str) -> ConditionName:
        """A condition's family, seed and prefix: the configuration's, else those that its key gives."""
        return self.names.get(key) or ConditionName.of_key(key)

    def seeds(self, family: str) -> int:
        """The number of a family's test-time seeds: the configuration's, else the paper's."""
        own = [name for name in self.names.values() if name.averaged == family and name.seed is not None]
        return len(own) or PAPER_SEEDS

    def condition(self, key: str) -> str:
        """A condition's label: the configuration's, else the paper's."""
        return self.conditions.get(key) or paper_labels.CONDITIONS.get(key, key)

    def printed_model(self, key: str) -> str:
        """A model's label as the paper's tables print it."""
        return paper_labels.PRINTED.get(self.model(key), self.model(key))

    def printed_condition(self, key: str) -> str:
        """A condition's label as the paper's tables print it."""
        return paper_labels.PRINTED.get(self.condition(key), self.condition(key))
