"""Every output of a run with the rule that makes it, its inputs and its settings: the graph, for those who ask about it.

The Snakefile has the same edges, for those who run it; a test holds the two together. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import pyarrow as pa

from stair.artifacts.names import FIGURES, TRAINING_FIGURE, table_names
from stair.config import params
from stair.config.model import Config
from stair.config.params import Settings
from stair.config.paths import BACKBONE_FILES, RunPaths
from stair.provenance.restored import Restored
from stair.records import schemas


@dataclass(frozen=True)
class Artefact:
    """What one job of a rule makes."""

    rule: str
    name: tuple[str, ...]
    """What tells the rule's jobs apart: a model, a benchmark, a condition."""
    files: tuple[Path, ...]
    inputs: tuple[Path, ...]
    """Files of earlier stages."""
    models: tuple[str, ...]
    """Models whose weights are used; their contents count as one input each."""
    settings_of: Callable[[], Settings]
    manifest: Path
    schema: pa.Schema | None = None
    """Of a Parquet table."""
    rows: tuple[tuple[str, str], ...] = ()
    """Columns that hold one value in every row."""

    @cached_property
    def settings(self) -> Settings:
        """The rule's settings; those with code in them take a moment, so they are looked up when they are asked for."""
        return self.settings_of()

    @property
    def title(self) -> str:
        """For people."""
        return " ".join((self.rule, *self.name))


class Artefacts:
    """All outputs of a run, in the order of the graph.

    Args:
        config: the run.
        paths: its files.
        everything: the training data too that nothing needs, because what is trained with it was restored from an archive.
    """

    def __init__(self, config: Config, paths: RunPaths, *, everything: bool = False) -> None:
        self._config, self._paths = config, paths
        self._everything, self._restored = everything, Restored(config, paths)
        self._trained = tuple(m for m in config.models if everything or self._restored.training_data_wanted(m))
        self._reported = len(self._trained) == len(config.models)
        self._answering = tuple(m for m in config.models if config.benchmarks_of(m))
        self._used = tuple(m for m in config.models if everything or self._restored.model_wanted(m))

    @cached_property
    def all(self) -> tuple[Artefact, ...]:
        """Every output that the configuration asks for."""
        return tuple(self._find())

    @cached_property
    def by_file(self) -> dict[Path, Artefact]:
        """The output that a file belongs to, manifests included."""
        return {file: artefact for artefact in self.all for file in (*artefact.files, artefact.manifest)}

    def of(self, rule: str, *name: str) -> list[Artefact]:
        """The outputs of one job. Raises ValueError where the configuration asks for none."""
        found = [artefact for artefact in self.all if (artefact.rule, artefact.name) == (rule, name)]
        if not found:
            raise ValueError(
                f"this run's configuration asks for no {rule} of {' '.join(name)} (it has{self._beside(rule, name)})"
            )
        return found

    def _beside(self, rule: str, name: tuple[str, ...]) -> str:
        """What could stand in a name's place: the words that go on from its longest right beginning."""
        names = [one.name for one in self.all if one.rule == rule]
        right = max((n for n in range(len(name)) if any(one[:n] == name[:n] for one in names)), default=0)
        words = dict.fromkeys(one[right] for one in names if one[:right] == name[:right] and len(one) > right)
        return (f", of {' '.join(name[:right])}: " if right else ": ") + (", ".join(words) or "none")

    def _find(self) -> Iterator[Artefact]:
        config, paths = self._config, self._paths
        for name in ("training_pool", *config.benchmarks):
            dataset = config.training_pool if name == "training_pool" else config.benchmarks[name]
            if dataset.tiny is not None and self._raw_wanted(name):
                yield self._file(
                    "raw", (name,), paths.dataset_file(config, name), (), partial(params.raw, config, name)
                )
        for model, settings in config.models.items():
            if settings.tiny is not None and model in self._used:
                folder = paths.backbone(model)
                files = tuple(folder / name for name in BACKBONE_FILES)
                found = partial(params.backbone, config, model)
                yield Artefact("backbone", (model,), files, (), (), found, folder / "manifest.json")
        for key in config.benchmarks:
            yield self._table(
                "benchmark", (key,), paths.benchmark(key), (paths.dataset_file(config, key),),
                partial(params.benchmark, config, key), schemas.BENCHMARK,
            )  # fmt: skip
        for key in config.benchmarks:
            yield self._table(
                "evaluation_sessions", (key,), paths.evaluation_sessions(key), (paths.benchmark(key),),
                partial(params.sessions, config), schemas.EVALUATION_SESSIONS,
            )  # fmt: skip
        for model in config.models:
            if model in self._trained:
                yield from self._training_data(model)
            if model in self._used:
                yield from self._preflight(model)
        if self._reported:
            yield self._data_report()
        for controller in config.controllers:
            for model in config.trained(controller):
                yield self._controller(model, controller)
        for condition in config.conditions:
            for model, benchmark in config.evaluated(condition):
                yield from self._evaluation(model, benchmark, condition)
        for model in self._answering:
            yield self._response_card(model)
        yield from self._results()
        yield from self._summary()

    def _raw_wanted(self, name: str) -> bool:
        """Whether something is made from a generated data set: not where that is restored from an archive."""
        if self._everything:
            return True
        if name == "training_pool":
            return any(not self._restored.has("training_pool", model) for model in self._trained)
        return not self._restored.has("benchmark", name)

    def _data_report(self) -> Artefact:
        config, paths = self._config, self._paths
        files = (paths.data_report(".md"), paths.data_report(".json"), paths.data_counts, paths.near_duplicates)
        inputs = (
            *(paths.benchmark(key) for key in config.benchmarks),
            *(path(model) for path in (paths.training_pool, paths.cleaning) for model in config.models),
        )
        settings = partial(params.data_report, config)
        return Artefact(
            "data_report", (), files, inputs, (), settings, files[0].with_name(f"{files[0].name}.manifest.json")
        )

    def _training_data(self, model: str) -> Iterator[Artefact]:
        config, paths = self._config, self._paths
        excluded = [paths.benchmark(key) for key in config.training_pool.excluded_for(model)]
        yield self._table(
            "training_pool", (model,), paths.training_pool(model),
            (paths.dataset_file(config, "training_pool"), *excluded),
            partial(params.training_pool, config, model), schemas.TRAINING_POOL,
        )  # fmt: skip
        yield self._file(
            "training_pool", (model,), paths.cleaning(model), (paths.dataset_file(config, "training_pool"), *excluded),
            partial(params.training_pool, config, model),
        )  # fmt: skip
        yield self._table(
            "rollouts", (model,), paths.rollouts(model), (paths.training_pool(model),),
            partial(params.rollouts, config, model), schemas.ROLLOUTS, (model,), (("model", model),),
        )  # fmt: skip
        for file in (paths.training_sessions(model), paths.validation_sessions(model)):
            yield self._table(
                "training_sessions", (model,), file, (paths.training_pool(model), paths.rollouts(model)),
                partial(params.sessions, config), schemas.TRAINING_SESSIONS,
            )  # fmt: skip
        yield self._file(
            "training_sessions", (model,), paths.dropped_records(model),
            (paths.training_pool(model), paths.rollouts(model)), partial(params.sessions, config),
        )  # fmt: skip

        yield self._file(
            "data_card", (model,), paths.data_card(model), (paths.training_pool(model), paths.rollouts(model)),
            partial(params.data_card, config, model),
        )  # fmt: skip

    def _preflight(self, model: str) -> Iterator[Artefact]:
        config, paths = self._config, self._paths
        seen = paths.preflight(model)
        yield self._look("preflight", (model,), seen, (), partial(params.preflight, config, model))
        for name, table in self._problems_of(model):
            settings = partial(params.preflight_limits, config, model, name)
            file = paths.preflight_limits(model, name)
            yield self._look("preflight_limits", (model, name), file, (seen, table), settings)

    def _problems_of(self, model: str) -> list[tuple[str, Path]]:
        """The tables of problems that a model's prompts are made of."""
        asked = [(key, self._paths.benchmark(key)) for key in self._config.benchmarks_of(model)]
        pool = [("training_pool", self._paths.training_pool(model))] if model in self._trained else []
        return [*pool, *asked]

    def _look(
        self,
        rule: str,
        name: tuple[str, ...],
        file: Path,
        needs: tuple[Path, ...],
        settings: Callable[[], params.Settings],
    ) -> Artefact:
        return Artefact(rule, name, (file,), needs, (name[0],), settings, file.with_name(f"{file.name}.manifest.json"))

    def _controller(self, model: str, controller: str) -> Artefact:
        paths = self._paths
        folder = paths.controller(model, controller)
        return Artefact(
            "controller",
            (model, controller),
            tuple(paths.controller_files(self._config, model, controller)),
            (
                paths.training_pool(model),
                paths.rollouts(model),
                paths.training_sessions(model),
                paths.validation_sessions(model),
            ),
            (model,),
            partial(params.training, self._config, model, controller),
            folder / "manifest.json",
        )

    def _evaluation(self, model: str, benchmark: str, condition: str) -> Iterator[Artefact]:
        config, paths = self._config, self._paths
        settings, name = config.conditions[condition], (model, benchmark, condition)
        inputs = [paths.benchmark(benchmark), paths.evaluation_sessions(benchmark)]
        if settings.first_turn is not None:
            inputs.append(paths.responses(model, benchmark, settings.first_turn))
        if settings.controller is not None:
            inputs += paths.controller_weights(config, model, settings.controller)
        rows = (("model", model), ("benchmark", benchmark), ("condition", condition))
        yield self._table(
            "responses", name, paths.responses(*name), tuple(inputs),
            partial(params.evaluation, config, *name), schemas.RESPONSES, (model,), rows,
        )  # fmt: skip
        yield self._table(
            "scores", name, paths.evaluation(*name), (paths.responses(*name), paths.benchmark(benchmark)),
            partial(params.scores, config, benchmark), schemas.SCORED, (), rows,
        )  # fmt: skip

    def _response_card(self, model: str) -> Artefact:
        config, paths = self._config, self._paths
        sealed = (paths.responses(m, b, c) for c in config.conditions for m, b in config.evaluated(c) if m == model)
        settings = partial(params.response_card, config, model)
        return self._file("response_card", (model,), paths.response_card(model), tuple(sealed), settings)

    def _results(self) -> Iterator[Artefact]:
        config, paths = self._config, self._paths
        evaluated = [(m, b, c) for c in config.conditions for m, b in config.evaluated(c)]
        benchmarks = tuple(paths.benchmark(key) for key in config.benchmarks)
        checked = (
            *benchmarks,
            *(paths.evaluation_sessions(key) for key in config.benchmarks),
            *(
                path(model)
                for path in (
                    paths.training_pool,
                    paths.rollouts,
                    paths.training_sessions,
                    paths.validation_sessions,
                )
                for model in self._trained
            ),
            *(paths.responses(*place) for place in evaluated),
        )
        yield self._file("check", (), paths.checks, checked, partial(params.checks, config))
        shown = (*benchmarks, *(paths.evaluation(*place) for place in evaluated), paths.checks)
        for name in table_names(config.models, config.conditions):
            files = tuple(paths.table(name, suffix) for suffix in (".csv", ".md", ".tex"))
            manifest = paths.table(name, ".manifest.json")
            yield Artefact("table", (name,), files, shown, (), partial(params.tables, config), manifest)
        for model in config.models:
            name = f"{TRAINING_FIGURE}{model}"
            curves = tuple(paths.curves(config, model).values())
            if curves:
                files = tuple(paths.figure(name, suffix) for suffix in (".pdf", ".png", ".csv"))
                manifest = paths.figure(name, ".manifest.json")
                found = partial(params.training_figure, config, model)
                yield Artefact("training_figure", (name,), files, curves, (), found, manifest)
        for name in FIGURES:
            files = tuple(paths.figure(name, suffix) for suffix in (".pdf", ".png", ".csv"))
            manifest = paths.figure(name, ".manifest.json")
            yield Artefact("figure", (name,), files, shown, (), partial(params.tables, config), manifest)

    def _summary(self) -> Iterator[Artefact]:
        config, paths = self._config, self._paths
        tables = [paths.table(name) for name in table_names(config.models, config.conditions)]
        curves = [TRAINING_FIGURE + model for model in config.models if paths.curves(config, model)]
        figures = [paths.figure(name, ".csv") for name in (*FIGURES, *curves)]
        # Nothing else leads to these.
        reports = [paths.response_card(model) for model in self._answering]
        reports += [paths.data_card(model) for model in self._trained]
        reports += [paths.preflight_limits(model, name) for model in self._used for name, _ in self._problems_of(model)]
        reports += [paths.data_report(".md")] if self._reported else []
        inputs = (*tables, *figures, *reports)
        yield self._file("provenance", (), paths.provenance, inputs, partial(params.provenance, config))

    @staticmethod
    def _file(
        rule: str, name: tuple[str, ...], file: Path, inputs: tuple[Path, ...], settings: Callable[[], Settings]
    ) -> Artefact:
        return Artefact(rule, name, (file,), inputs, (), settings, file.with_name(f"{file.name}.manifest.json"))

    @staticmethod
    def _table(
        rule: str,
        name: tuple[str, ...],
        file: Path,
        inputs: tuple[Path, ...],
        settings: Callable[[], Settings],
        schema: pa.Schema,
        models: tuple[str, ...] = (),
        rows: tuple[tuple[str, str], ...] = (),
    ) -> Artefact:
        manifest = file.with_name(f"{file.name}.manifest.json")
        return Artefact(rule, name, (file,), inputs, models, settings, manifest, schema, rows)
