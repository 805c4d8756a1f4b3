"""The training problems, the benchmarks and the hub that they come from."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from stair.config.field_types import Count, Identities, Key, Keys, Natural, Positive, Strict, Text, Texts

GENERATED = ("math500", "aime2025", "amc23", "gpqa_diamond")
"""The benchmarks for which problems can be generated (`tiny`), in the schemas of their files."""


class Hub(Strict):
    """Models and data sets from the hub: one cache for all runs, filled by `fetch` and by nothing else."""

    cache: str = Field("cache", description="The folder that holds them, shared by runs; compute nodes must see it.")
    lock: str = Field(
        "revisions.lock", description="The file with the fetched commits, which later fetches must match."
    )


class Columns(Strict):
    """Where a data set keeps things; dots go into nested values (`reward_model.ground_truth`, `prompt.0.content`)."""

    problem: str = Field("problem", description="The problem's text.")
    answer: str = Field("answer", description="The reference answer.")


class BenchmarkColumns(Columns):
    """Where a benchmark keeps things."""

    id: str | None = Field(None, description="The data set's own identity of a problem; null numbers the rows from 0.")
    wrong_choices: Texts = Field((), description="The wrong options; `answer` is then the right one.")


class Subset(Strict):
    """A part of a data set's problems, a function of their texts and a name."""

    problems: Positive = Field(description="How many problems stay; data with fewer are refused.")
    seed: Text = Field("subset", description="Names the choice: the first problems by hash under this name.")


class Dataset(Strict):
    """A table of problems and answers: on the hub, in a local file, or generated."""

    repository: str | None = Field(None, description="The data set's repository on the hub.")
    revision: str | None = Field(None, description="The repository's commit; null where none has been recorded yet.")
    file: str | None = Field(None, description="The file within the repository.")
    path: str | None = Field(None, description="A local file (.parquet, .jsonl, .csv), in place of the repository.")
    tiny: Count | None = Field(None, description="How many problems to generate, in place of a file.")
    subset: Subset | None = Field(None, description="The part of the problems that stays; null keeps all.")
    columns: Columns = Field(default_factory=Columns, description="Where the data set keeps problems and answers.")
    publish_text: bool = Field(True, description="Whether its text may be published.")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        sources = [name for name in ("repository", "path", "tiny") if getattr(self, name) is not None]
        if len(sources) != 1:
            raise ValueError(f"give exactly one of repository, path and tiny (given: {', '.join(sources) or 'none'})")
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

    columns: BenchmarkColumns = Field(default_factory=BenchmarkColumns, description="The columns of its values.")
    exclude_ids: Identities = Field((), description="Identities of problems that are left out.")
    label: str = Field(description="The name in tables and figures.")
    kind: Literal["math", "integer", "choice"] = Field("math", description="How answers are compared.")
    prompt: Key = Field("math", description="Which of `prompts` its problems are asked with.")
    rows: Positive | None = Field(None, description="How many rows the data set must have; null accepts any.")
    mathematical: bool = Field(True, description="Whether it enters the pooled mathematical comparison.")

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

    name: str = Field(description="The data set's name; enters the seeds of its responses.")
    prompt: Key = Field("training", description="Which of `prompts` its problems are asked with.")
    strip_prefixes: Texts = Field((), description="Fixed openings to remove from problem texts.")
    strip_suffixes: Texts = Field((), description="Fixed endings to remove from problem texts.")
    exclude_benchmarks: Keys = Field((), description="Benchmarks whose problems are not trained on.")
    exclude_more: dict[Key, Keys] = Field(default_factory=dict, description="Further benchmarks to exclude, by model.")
    validation_problems: Natural = Field(description="Problems held out for validation.")
    seed: Text = Field("validation", description="Names the split.")

    def excluded_for(self, model: str) -> list[str]:
        """The benchmarks whose problems a model must not be trained on."""
        return list(dict.fromkeys([*self.exclude_benchmarks, *self.exclude_more.get(model, ())]))
