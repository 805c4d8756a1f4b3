"""The jobs of the workflow, a row for each rule: what does the work, its outputs, and the settings that make them stale.

A rule in `workflow/rules` has the files of one job. Its shell line is `stair job RULE ...` (`stair.cli.job`), which checks the
inputs, calls the row's function and writes the manifest. Imports no stage: a function is imported when its job starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from stair.config.engines import EngineName
from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.replay import REPLAY_PARTS
from stair.config.setting_places import Settings
from stair.core import SECTIONS, Place, condition_key
from stair.paper.exhibits import FIGURE_SUFFIXES, TABLE_SUFFIXES, Kind, analyzed_models, evaluated_places, exhibits
from stair.records.keys import digest_of
from stair.records.manifest import CODE, CONFIGURATION, source_digest
from stair.stages.data import settings as data
from stair.stages.evaluation import settings as evaluation
from stair.stages.preflight import settings as preflight
from stair.stages.replay import settings as replay
from stair.stages.rollouts import settings as rollouts
from stair.stages.runtime import settings as runtime
from stair.stages.sessions import settings as sessions
from stair.stages.training import settings as training
from stair.tiny import settings as tiny

Files = Callable[[Config, RunPaths], Iterable[Sequence[Path]]]
"""The outputs of a rule in a run, job by job."""


def _no_files(config: Config, paths: RunPaths) -> list[Sequence[Path]]:
    return []


class Job(NamedTuple):
    stage: str
    """The target that it belongs to."""
    run: str
    """The function that does the work, `module:function`: called with the configuration, the paths and the wildcards, of a
    shard with its `Shard` in place of two; returns facts for the manifest, or None."""
    settings: Callable[..., Settings]
    """The settings that its outputs depend on, from the configuration and `names`: a changed one runs the job again."""
    names: tuple[str, ...] = ()
    """The wildcards that decide its outputs. Those of a shard, and of a file's suffix, are none."""
    files: Files = _no_files
    """The outputs of each of its jobs in a run. Those of a shard are deleted once they are sealed."""
    engine: Callable[..., EngineName | None] | None = None
    """The engine that it computes with, from the configuration and `names`; None: it needs no GPU."""
    progress: str = ""
    """The name of its progress file, if it reports how far it is. A shard's folder below `work` is this without the shard."""
    folder: bool = False
    """Whether its outputs are a folder, which then contains the manifest."""
    reusable: bool = False
    """Whether its outputs are copied from a run of `reuse` that made them from the same inputs."""
    after: str = ""
    """A function with the same arguments, called once the manifest is written."""
    prints: str = ""
    """A function that prints its outputs. Its command for people calls it, and does no work where they are up to date."""

    @property
    def is_shard(self) -> bool:
        """Whether it generates a share of the work for a seal. A shard writes no manifest."""
        return self.progress.endswith("{shard}")


def imported(name: str) -> Callable[..., Any]:
    """The function `module:function`."""
    module, _, function = name.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), function)
    return found


PLACES = {"results", "hub", "reuse", "accept_missing", "transformers", "sglang"}
"""Keys of the configuration that set places and speed, and what is accepted: they change no shown number by themselves."""


def shown(config: Config, **_: str) -> Settings:
    """The settings of a job that shows results, in seconds on a CPU: the whole configuration but `PLACES`, and the whole code."""
    content = config.model_dump(mode="json", exclude=PLACES)
    return {CONFIGURATION: digest_of(content), CODE: source_digest("stair", "answer_grader")}


SHARED_CODE = tuple(
    f"stair.{room}" for room in ("core", "config", "records", "models", "method", "engines", "sessions")
)
"""The code that stages share. `statistics` is not part of it: no response and no weight follows from a statistic."""


def code_of(rule: str, settings: Settings) -> str:
    """The fingerprint of the code that a job runs: the one in its settings, else that of its stage and of the shared rooms."""
    stage = JOBS[rule].run.partition(":")[0].rpartition(".")[0]
    return str(settings[CODE]) if CODE in settings else source_digest(*SHARED_CODE, stage)


def _rollouts_engine(config: Config, model: str) -> EngineName:
    return config.rollout_engine(model)


def _answers_engine(config: Config, model: str, benchmark: str, condition: str) -> EngineName:
    return config.engine_for(model, benchmark)


def _transformers(config: Config, **_: str) -> EngineName:
    return "transformers"


def _training_engine(config: Config, model: str, controller: str) -> EngineName | None:
    return None if config.controllers[controller].path is not None else "transformers"


def of_models(*files: Callable[[RunPaths, str], Path]) -> Files:
    """These files of each model."""
    return lambda config, paths: [[file(paths, model) for file in files] for model in config.models]


def _of_benchmarks(file: Callable[[RunPaths, str], Path]) -> Files:
    return lambda config, paths: [[file(paths, benchmark)] for benchmark in config.benchmarks]


def _of_replayed(*files: Callable[[RunPaths, str], Path]) -> Files:
    return lambda config, paths: [
        [file(paths, model) for file in files] for model in (config.replay.models if config.replay else ())
    ]


def _generated_sets(config: Config, paths: RunPaths) -> Iterable[Sequence[Path]]:
    sources = {"training_pool": config.training_pool, **config.benchmarks}
    generated = [name for name, source in sources.items() if source.tiny is not None and source.path is None]
    return [[paths.dataset_file(config, name)] for name in generated]


def _data_report(config: Config, paths: RunPaths) -> Iterable[Sequence[Path]]:
    return [[paths.data_report(".md"), paths.data_report(".json"), paths.data_counts, paths.near_duplicates]]


def _controllers(config: Config, paths: RunPaths) -> Iterable[Sequence[Path]]:
    trained = [(model, key) for key in config.controllers for model in config.trained(key)]
    return [paths.controller_files(config, *names) for names in trained]


def _responses(config: Config, paths: RunPaths) -> Iterable[Sequence[Path]]:
    return [[paths.responses(*place)] for place in _answered(config)]


def _scores(config: Config, paths: RunPaths) -> Iterable[Sequence[Path]]:
    return [[paths.scored(*place)] for place in _answered(config)]


def _answered(config: Config) -> list[Place]:
    return [place.of(study) for study in SECTIONS for place in evaluated_places(config, study)]


def _replay_statistics(config: Config, paths: RunPaths) -> Iterable[Sequence[Path]]:
    return [[paths.replay_statistics(model, part)] for model in analyzed_models(config) for part in REPLAY_PARTS]


def _runtime(config: Config, paths: RunPaths) -> Iterable[Sequence[Path]]:
    return [[paths.runtime(model)] for model in (config.runtime.models if config.runtime else ())]


def _exhibits(kind: Kind, suffixes: Iterable[str]) -> Files:
    return lambda config, paths: [
        [each.file(paths, suffix) for suffix in suffixes] for each in exhibits(config) if each.kind == kind
    ]


_PLACE = ("model", "benchmark", "condition")
_TRAINING = Job(
    "training",
    "stair.stages.training.stage:train",
    training.training,
    ("model", "controller"),
    _controllers,
    _training_engine,
    "training/{model}/{controller}",
    folder=True,
    reusable=True,
    after="stair.stages.training.stage:end",
)

JOBS: dict[str, Job] = {
    "raw": Job("data", "stair.tiny.stage:write_raw", tiny.raw, ("name",), _generated_sets),
    "benchmark": Job(
        "data", "stair.stages.data.stage:benchmark", data.benchmark, ("benchmark",), _of_benchmarks(RunPaths.benchmark)
    ),
    "training_pool": Job(
        "data",
        "stair.stages.data.stage:training_pool",
        data.training_pool,
        ("model",),
        of_models(RunPaths.training_pool, RunPaths.cleaning),
    ),
    "data_report": Job("data", "stair.stages.data.report:write_report", shown, (), _data_report),
    "preflight_model": Job(
        "preflight", "stair.stages.preflight.stage:run", preflight.preflight, ("model",), of_models(RunPaths.preflight)
    ),
    "rollout_shard": Job(
        "rollouts",
        "stair.stages.rollouts.stage:generate",
        rollouts.rollouts,
        ("model",),
        engine=_rollouts_engine,
        progress="rollouts/{model}/{shard}",
    ),
    "seal_rollouts": Job(
        "rollouts", "stair.stages.rollouts.stage:seal", rollouts.rollouts, ("model",), of_models(RunPaths.rollouts)
    ),
    "training_sessions": Job(
        "sessions",
        "stair.stages.sessions.stage:training",
        sessions.sessions,
        ("model",),
        of_models(RunPaths.training_sessions, RunPaths.validation_sessions, RunPaths.dropped_records),
    ),
    "evaluation_sessions": Job(
        "sessions",
        "stair.stages.sessions.stage:evaluation",
        sessions.sessions,
        ("benchmark",),
        _of_benchmarks(RunPaths.evaluation_sessions),
    ),
    "train_controller": _TRAINING,
    "train_lora": _TRAINING,
    "train_lora_stair": _TRAINING,
    "evaluation_shard": Job(
        "evaluation",
        "stair.stages.evaluation.stage:generate",
        evaluation.evaluation,
        _PLACE,
        engine=_answers_engine,
        progress="evaluation/{model}/{benchmark}/{condition}/{shard}",
    ),
    "seal_evaluation": Job(
        "evaluation", "stair.stages.evaluation.stage:seal", evaluation.evaluation, _PLACE, _responses
    ),
    "score_condition": Job("scores", "stair.stages.evaluation.scores:score", evaluation.scores, _PLACE, _scores),
    "replay_design": Job(
        "replay",
        "stair.stages.replay.stage:design",
        replay.replay_design,
        ("model",),
        _of_replayed(RunPaths.replay_problems, RunPaths.replay_histories),
    ),
    "replay_shard": Job(
        "replay",
        "stair.stages.replay.stage:measure",
        replay.replay,
        ("model",),
        engine=_transformers,
        progress="replay/{model}/{shard}",
    ),
    "seal_replay": Job(
        "replay", "stair.stages.replay.stage:seal", replay.replay, ("model",), _of_replayed(RunPaths.replay_checksums)
    ),
    "replay_statistics": Job(
        "replay", "stair.stages.replay.stage:analyze", replay.replay_statistics, ("model", "part"), _replay_statistics
    ),
    "measure_runtime": Job(
        "runtime",
        "stair.stages.runtime.stage:run",
        runtime.runtime,
        ("model",),
        _runtime,
        _transformers,
        "runtime/{model}",
    ),
    "check": Job(
        "check",
        "stair.stages.checks.stage:run",
        shown,
        (),
        lambda config, paths: [[paths.checks]],
        prints="stair.stages.checks.stage:show",
    ),
    "table": Job("tables", "stair.paper.make:write_table", shown, ("table",), _exhibits("table", TABLE_SUFFIXES)),
    "figure": Job("figures", "stair.paper.make:write_figure", shown, ("figure",), _exhibits("figure", FIGURE_SUFFIXES)),
    "comparison": Job(
        "comparison",
        "stair.paper.comparison.stage:run",
        shown,
        (),
        lambda config, paths: [[paths.comparison(".csv"), paths.comparison(".md")]],
        prints="stair.paper.comparison.stage:show",
    ),
    "claims": Job(
        "claims",
        "stair.paper.claims.stage:run",
        shown,
        (),
        lambda config, paths: [[paths.claims(".csv"), paths.claims(".md")]],
        prints="stair.paper.claims.stage:show",
    ),
    "provenance": Job(
        "provenance",
        "stair.pipeline.provenance:write_provenance",
        shown,
        (),
        lambda config, paths: [[paths.provenance]],
    ),
    "report": Job("report", "stair.paper.report.stage:write_report", shown, (), lambda config, paths: [[paths.report]]),
}
"""Every rule with outputs, by its name, in the order of the stages. Downloads from the hub have none: they are no result of
a run."""

STAGES: dict[str, tuple[str, ...]] = {
    stage: tuple(rule for rule, job in JOBS.items() if job.stage == stage)
    for stage in dict.fromkeys(job.stage for job in JOBS.values())
}
"""The targets of the workflow in their order, without `fetch` and `all`, each with its rules."""


def stages_of(config: Config) -> Sequence[str]:
    """The stages of a run in their order: of one that only measures, those of the runtime study."""
    measuring = ("runtime", "tables", "figures", "provenance", "report")
    return measuring if config.only_measures else tuple(STAGES)


def job_files(config: Config, paths: RunPaths, rules: Iterable[str] = JOBS) -> Iterator[Sequence[Path]]:
    """The outputs of each job of these rules, in their order."""
    for files in dict.fromkeys(JOBS[rule].files for rule in rules):  # the rules of training share a row
        yield from files(config, paths)


def stage_files(config: Config, paths: RunPaths, stage: str) -> list[Path]:
    """The outputs of a stage."""
    return [file for files in job_files(config, paths, STAGES[stage]) for file in files]


def settings_of(config: Config, rule: str, wildcards: Mapping[str, str]) -> Settings:
    """The settings of a job; wildcards that they do not depend on (shard, of, suffix) may be given."""
    return JOBS[rule].settings(config, **names_of(rule, wildcards))


def names_of(rule: str, wildcards: Mapping[str, str]) -> dict[str, str]:
    """The wildcards of a job that decide its outputs; a condition that is named apart from its study has its key."""
    if "study" in wildcards:
        wildcards = {**wildcards, "condition": condition_key(wildcards["study"], wildcards["condition"])}
    return {name: wildcards[name] for name in JOBS[rule].names}


def gpus_of(config: Config, rule: str, wildcards: Mapping[str, str]) -> int:
    """The GPUs that a job computes on."""
    job = JOBS[rule]
    if job.engine is None:
        return 0
    workers = config.training.workers if job.stage == "training" else 1
    engine = job.engine(config, **names_of(rule, wildcards))
    return 0 if engine is None else workers * config.gpus_for(engine)


def job_name(rule: str, wildcards: Mapping[str, str]) -> str:
    """A job's name: that of its progress file, or its rule with its wildcards."""
    if rule in JOBS and JOBS[rule].progress:
        return JOBS[rule].progress.format(**wildcards)
    return "/".join((rule, *(value for key, value in wildcards.items() if key != "suffix")))
