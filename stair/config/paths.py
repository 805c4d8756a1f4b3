"""The paths of a run's files. The workflow and the stages use no others."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from stair.config.model import Config
from stair.config.resolve import RESOLVED, ConfigError
from stair.core import study_of

_PROJECT = Path(__file__).parents[2]

START = "STAIR_START"
"""Environment: the folder in which a person started the run. Its jobs work in the run's folder."""

RUN = "STAIR_RUN"
"""Environment: the run's folder, for its jobs on a cluster."""

INPUTS_CHECKED = "STAIR_INPUTS_CHECKED"
"""Environment of Snakemake: its inputs need no check, because `stair reproduce` has checked them or an archive has none."""


def anchored(path: str | Path) -> Path:
    """A path of the configuration. A relative one starts in the folder in which the run was started."""
    return Path(os.environ.get(START, "")) / path


def input_name(file: Path) -> Path:
    """A file outside the run's folder as a rule names it; rules work in the run's folder.

    The name is relative if both are in the folder of the start, or in the project. A moved or copied project then has the same
    names, by which Snakemake and manifests find the recorded checksums.
    """
    here = Path.cwd()
    if any(file.is_relative_to(root) and here.is_relative_to(root) for root in (anchored("").absolute(), _PROJECT)):
        return Path(os.path.relpath(file))
    return file


def project_root() -> Path:
    """The folder with the Snakefile: the current one, else that of this package.

    Raises:
        ConfigError: there is none, or the current one is a copy of the project whose code is not this package.
    """
    for folder in (anchored(""), Path(__file__).parents[2]):
        if (folder / "Snakefile").is_file() and (folder / "config.yaml").is_file():
            own = folder / "stair" / "config" / "paths.py"
            if own.is_file() and not own.samefile(__file__):
                raise ConfigError(
                    f"{folder.absolute()} has code of its own, but the environment {sys.prefix} runs that of "
                    f"{Path(__file__).parents[2]}; run `make env` there, and use its .venv"
                )
            return folder
    raise ConfigError("there is no Snakefile in the current folder; run this command in the project's folder")


@dataclass(frozen=True)
class RunPaths:
    """The files of a run, under its folder."""

    folder: Path

    @classmethod
    def of(cls, config: Config) -> RunPaths:
        return cls(anchored(config.results) / config.run)

    def start_command(self, *options: str) -> str:
        """The command that starts the run again, as its folder has it; an expensive run does not start without `--go`."""
        resolved = self.resolved.read_text(encoding="utf-8") if self.resolved.is_file() else ""
        go = ["--go"] if "\nexpensive: true\n" in resolved else []
        return shlex.join(["stair", "reproduce", *go, "--run", str(self.shown), *options])

    @property
    def shown(self) -> Path:
        """Its folder from where the run was started."""
        folder, start = self.folder.absolute(), anchored("").absolute()
        return folder.relative_to(start) if folder.is_relative_to(start) else folder

    @property
    def resolved(self) -> Path:
        return self.folder / RESOLVED

    @property
    def driver(self) -> Path:
        """The host and the process id of the process that drives the run."""
        return self.folder / "work" / "driver.pid"

    def log(self, *parts: str) -> Path:
        return self.folder.joinpath("logs", *parts[:-1], f"{parts[-1]}.log")

    @property
    def progress(self) -> Path:
        return self.folder / "work" / "progress"

    def work(self, *parts: str) -> Path:
        """The work folder of a piece of work: its logs, and its captured states until the seal."""
        return self.folder.joinpath("work", *parts)

    def shard(self, number: str, of: str, *parts: str) -> Path:
        """The completion marker of a shard."""
        return self.work(*parts) / f"shard-{number}-of-{of}.done"

    def raw(self, name: str, suffix: str) -> Path:
        """A generated data set, in the schema of the real one."""
        return self.folder / "raw" / f"{name}{suffix}"

    def benchmark(self, benchmark: str) -> Path:
        return self.folder / "data" / "benchmarks" / f"{benchmark}.parquet"

    def training_pool(self, model: str) -> Path:
        return self.folder / "data" / "training" / f"{model}.parquet"

    def rollouts(self, model: str) -> Path:
        return self.folder / "rollouts" / f"{model}.parquet"

    def training_sessions(self, model: str) -> Path:
        return self.folder / "sessions" / "training" / f"{model}.parquet"

    def validation_sessions(self, model: str) -> Path:
        return self.folder / "sessions" / "validation" / f"{model}.parquet"

    def dropped_records(self, model: str) -> Path:
        """The source records that are in no session, with the reason."""
        return self.folder / "sessions" / "dropped" / f"{model}.csv"

    def evaluation_sessions(self, benchmark: str) -> Path:
        return self.folder / "sessions" / "evaluation" / f"{benchmark}.parquet"

    def controller(self, model: str, controller: str) -> Path:
        return self.folder / "controllers" / model / controller

    def weights(self, model: str, controller: str) -> Path:
        return self.controller(model, controller) / "controller.safetensors"

    def published(self, config: Config, model: str, controller: str) -> Path | None:
        """The folder of a published controller that the run takes in place of training one (`controllers.X.path`)."""
        path = config.controllers[controller].path
        return None if path is None else _local(path.replace("{model}", model))

    def controller_files(self, config: Config, model: str, controller: str) -> list[Path]:
        """Every file of a trained controller but its manifest: what its kind has."""
        return [self.controller(model, controller) / name for name in config.controllers[controller].files]

    def controller_weights(self, config: Config, model: str, controller: str) -> list[Path]:
        """The files that decide what a trained controller does: normals or scales, and the adapter's."""
        files = self.controller_files(config, model, controller)
        return [path for path in files if path.suffix == ".safetensors" or path.name == "adapter_config.json"]

    def curves(self, config: Config, model: str) -> dict[str, Path]:
        return {
            key: self.controller(model, key) / "curve.csv" for key in config.controllers if model in config.trained(key)
        }

    @property
    def is_archive(self) -> bool:
        """Whether it has scored rows without the benchmarks' tables, which every run keeps and no archive contains."""
        return (self.folder / "evaluation").is_dir() and not self.benchmark("").parent.is_dir()

    def responses(self, model: str, benchmark: str, condition: str) -> Path:
        return self.folder / "responses" / model / benchmark / f"{condition}.parquet"

    def scored(self, model: str, benchmark: str, condition: str) -> Path:
        study, name = study_of(condition)
        return self.folder / study / model / benchmark / f"{name}.parquet"

    def replay_histories(self, model: str) -> Path:
        return self.folder / "replay" / model / "histories.parquet"

    def replay_problems(self, model: str) -> Path:
        return self.folder / "replay" / model / "problems.parquet"

    def replay_checksums(self, model: str) -> Path:
        """The checksums of a model's measurements, as `sha256sum` writes them."""
        return self.folder / "replay" / model / "states.sha256"

    def replay_states(self, model: str) -> Path:
        return self.folder / "replay" / model / "states"

    def replay_statistics(self, model: str, part: str) -> Path:
        return self.folder / "replay" / model / f"{part}.parquet"

    def runtime(self, model: str) -> Path:
        return self.folder / "runtime" / f"{model}.csv"

    @property
    def checks(self) -> Path:
        """The invariants of the protocol, a line each; there only when all hold."""
        return self.folder / "checks.csv"

    @property
    def provenance(self) -> Path:
        return self.folder / "provenance.json"

    def comparison(self, suffix: str = ".csv") -> Path:
        return self.folder / f"comparison{suffix}"

    def claims(self, suffix: str = ".csv") -> Path:
        return self.folder / f"claims{suffix}"

    @property
    def report(self) -> Path:
        return self.folder / "report.html"

    @property
    def paper(self) -> Path:
        return self.folder / "paper.pdf"

    def table(self, name: str, suffix: str = ".csv") -> Path:
        return self.folder / "tables" / f"{name}{suffix}"

    def figure(self, name: str, suffix: str = ".png") -> Path:
        return self.folder / "figures" / f"{name}{suffix}"

    def reused(self, config: Config) -> dict[str, RunPaths]:
        """The runs of `reuse`, whose finished work is used, by their names in the configuration."""
        return {run: RunPaths(anchored(run if "/" in run else Path(config.results, run))) for run in config.reuse}

    # ---------------------------------------------------------------- cleaning and its report

    def cleaning(self, model: str) -> Path:
        return self.folder / "data" / "training" / f"{model}.cleaning.json"

    def data_report(self, suffix: str) -> Path:
        return self.folder / "data" / f"report{suffix}"

    @property
    def data_counts(self) -> Path:
        return self.folder / "data" / "counts.csv"

    @property
    def near_duplicates(self) -> Path:
        """Training problems that nearly repeat a benchmark's question."""
        return self.folder / "data" / "near_duplicates.csv"

    def preflight(self, model: str) -> Path:
        """Preflight's record of a model's tokenizer, template and configuration."""
        return self.folder / "preflight" / f"{model}.json"

    # ---------------------------------------------------------------- sources

    def dataset_file(self, config: Config, name: str) -> Path:
        """The file that a data set is read from: `training_pool` or a benchmark's key."""
        dataset = config.training_pool if name == "training_pool" else config.benchmarks[name]
        if dataset.path is not None:
            return _local(dataset.path)
        if dataset.tiny is not None:
            return self.raw(name, Path(dataset.file or "").suffix)
        assert dataset.repository is not None
        return _cached(config, "datasets", dataset.repository, dataset.revision) / (dataset.file or "")

    def model_folder(self, config: Config, model: str) -> Path:
        settings = config.models[model]
        if settings.path is not None:
            return _local(settings.path)
        assert settings.repository is not None
        return _cached(config, "models", settings.repository, settings.revision)

    def fetched_mark(self, config: Config, name: str) -> Path:
        """The mark that a data set's file was downloaded whole, with its commit."""
        file = self.dataset_file(config, name)
        return file.with_name(f"{file.name}.fetched.json")

    def model_mark(self, config: Config, model: str) -> Path:
        """The mark that a model was downloaded whole, with its commit."""
        return self.model_folder(config, model) / "fetched.json"


def _cached(config: Config, kind: str, repository: str, revision: str | None) -> Path:
    """A repository's folder in the cache; a configured revision has a folder of its own."""
    return anchored(config.hub.cache) / kind / (repository if revision is None else f"{repository}@{revision}")


def _local(path: str) -> Path:
    """A path of the configuration: a relative one starts in the folder of the start, else in the project's."""
    if not anchored(path).exists() and (_PROJECT / path).exists():
        return _PROJECT / path
    return anchored(path)


def require_folder(folder: Path, key: str) -> Path:
    """Raises ConfigError, naming the key, if a model folder does not exist or holds no model."""
    if not folder.is_dir():
        raise ConfigError(f"{key}: the model folder {folder} does not exist")
    if not (folder / "config.json").is_file():
        raise ConfigError(f"{key}: {folder} holds no model (there is no config.json)")
    return folder
