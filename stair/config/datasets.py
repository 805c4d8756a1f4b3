"""The training problems, the benchmarks and the hub that they come from."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from stair.config.field_types import (
    Count,
    Identities,
    Key,
    Keys,
    Natural,
    Positive,
    Strict,
    Text,
    Texts,
    check_one_source,
)

GENERATED = ("math500", "aime2025", "amc23", "gpqa_diamond")
"""The benchmarks for which problems can be generated (`tiny`), in the schemas of their files."""


class Hub(Strict):
    """Models and data sets from the hub: one cache for all runs, filled by `fetch` and by nothing else."""

    cache: str = "cache"
    lock: str = "revisions.lock"


class Columns(Strict):
    """Where a data set keeps things; dots go into nested values (`reward_model.ground_truth`, `prompt.0.content`)."""

    problem: str = "problem"
    answer: str = "answer"


class BenchmarkColumns(Columns):
    """Where a benchmark keeps things."""

    id: str | None = None
    wrong_choices: Texts = ()


class Subset(Strict):
    """A part of a data set's problems, a function of their texts and a name."""

    problems: Positive
    seed: Text = "subset"


class Dataset(Strict):
    """A table of problems and answers: on the hub, in a local file, or generated."""

    repository: str | None = None
    revision: str | None = None
    file: str | None = None
    path: str | None = None
    tiny: Count | None = None
    subset: Subset | None = None
    columns: Columns = Field(default_factory=Columns)

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        check_one_source(self, "repository", "path", "tiny")
        if self.path is None and self.file is None:
            raise ValueError(
                f"file must name the file within {self.repository}"
                if self.repository is not None
                else "tiny needs `file`: the ending of its name gives the format in which the problems are written"
            )
        return self

    @property
    def counts(self) -> dict[str, int | None]:
        return {"tiny": self.tiny, "subset.problems": None if self.subset is None else self.subset.problems}


class Benchmark(Dataset):
    """An evaluation set."""

    columns: BenchmarkColumns = Field(default_factory=BenchmarkColumns)
    exclude_ids: Identities = ()
    label: str
    kind: Literal["math", "integer", "choice"] = "math"
    prompt: Key = "math"
    rows: Positive | None = None
    mathematical: bool = True
    publish_text: bool = True

    @property
    def counts(self) -> dict[str, int | None]:
        return super().counts | {"rows": self.rows}

    @model_validator(mode="after")
    def _choices(self) -> Self:
        if self.kind == "choice" and not self.columns.wrong_choices:
            raise ValueError("kind choice needs columns.wrong_choices, the columns of the wrong options")
        return self


class TrainingPool(Dataset):
    """The problems that training responses are drawn for."""

    name: str
    prompt: Key = "training"
    strip_prefixes: Texts = ()
    strip_suffixes: Texts = ()
    exclude_benchmarks: Keys = ()
    exclude_more: dict[Key, Keys] = Field(default_factory=dict)
    validation_problems: Natural
    seed: Text = "validation"

    def excluded_for(self, model: str) -> list[str]:
        """The benchmarks whose problems a model must not be trained on."""
        return list(dict.fromkeys([*self.exclude_benchmarks, *self.exclude_more.get(model, ())]))
