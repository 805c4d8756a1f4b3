"""What a run costs, before it starts: responses, tokens, GPU-hours and disk. Imports no torch.

GPU-hours are tokens over tokens per second. The tables below name the source of each figure; most are rough, so a plan is right
within a factor of two. `measured` takes them from a finished run.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from stair.config.datasets import Dataset
from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.core import TURNS
from stair.models.architecture import Architecture
from stair.models.model_folder import known_architecture
from stair.pipeline.jobs import JOBS, STAGES, gpus_of, settings_of
from stair.records.files import bytes_text
from stair.records.manifest import (
    GENERATING_SECONDS,
    SECONDS,
    changed_settings,
    manifest_files,
    manifest_path,
    read_manifest,
)
from stair.records.progress import duration


class Figure(NamedTuple):
    value: float
    source: str


_TINY = "docs/tiny.md, the seconds of the tiny run"
_SERVER = "not measured: half of an H100's bandwidth for weights and caches"
_HYBRID = "not measured: 32 layers in place of Qwen3-4B's 36"
_HYBRID_9B = "not measured: as Qwen3.5-4B, with more weights to read"
SPEEDS: dict[tuple[str, str], Figure] = {
    ("SGLang", "small"): Figure(700, "not measured"),
    ("SGLang", "4B"): Figure(5_100, _SERVER),
    ("SGLang", "hybrid 4B"): Figure(5_000, _SERVER),
    ("SGLang", "hybrid 9B"): Figure(3_800, _SERVER),
    ("decoding", "small"): Figure(14, _TINY),
    ("decoding", "4B"): Figure(98, "benchmarks/gpu.md: 6,265 tokens/s in 64 rows"),
    ("decoding", "hybrid 4B"): Figure(110, _HYBRID),
    ("decoding", "hybrid 9B"): Figure(100, _HYBRID_9B),
    ("one response", "small"): Figure(206, _TINY),
    ("one response", "4B"): Figure(119, "benchmarks/gpu.md: decoding at batch 1"),
    ("one response", "hybrid 4B"): Figure(110, _HYBRID),
    ("one response", "hybrid 9B"): Figure(100, _HYBRID_9B),
    ("training", "small"): Figure(320, _TINY),
    ("training", "4B"): Figure(3_400, "benchmarks/gpu.md: 8,192 tokens in 2.40 s"),
    ("training", "hybrid 4B"): Figure(1_560, "benchmarks/gpu.md: 8,192 tokens in 5.25 s"),
    ("training", "hybrid 9B"): Figure(1_770, "benchmarks/gpu.md: 8,192 tokens in 4.64 s"),
    ("replay", "small"): Figure(44_000, _TINY),
    ("replay", "4B"): Figure(20_800, "benchmarks/gpu.md: 16 questions of 200 tokens in 0.154 s"),
    ("replay", "hybrid 4B"): Figure(9_000, "not measured: by the prefills in benchmarks/gpu.md"),
    ("replay", "hybrid 9B"): Figure(4_500, "not measured: half of Qwen3.5-4B"),
}
"""Tokens per second of one GPU (of a small model: of one core), by what is computed and the class of the model. Decoding: of
each row of the batch."""

_GUESS = "not measured"
MEAN_TOKENS: dict[tuple[bool, str], Figure] = {
    (False, "math500"): Figure(1_040, "appendix A.1: median histories of 3,017 and 4,103 tokens, less the prompts"),
    (False, "aime2025"): Figure(6_000, _GUESS),
    (False, "amc23"): Figure(3_000, _GUESS),
    (False, "gpqa_diamond"): Figure(3_000, _GUESS),
    (False, "training_pool"): Figure(3_500, _GUESS),
    (True, "math500"): Figure(12_000, _GUESS),
    (True, "aime2025"): Figure(51_000, "appendix C.4, shared T1: the median of banks, and how many exceed 8K and 32K"),
    (True, "amc23"): Figure(20_000, _GUESS),
    (True, "gpqa_diamond"): Figure(16_000, _GUESS),
    (True, "training_pool"): Figure(16_000, _GUESS),
}
"""Mean tokens of a response, by whether the model thinks; never more than the output limit."""
_OTHER_TOKENS = {False: 3_000.0, True: 16_000.0}
"""The same on other benchmarks."""

_PROMPT_TOKENS = 150.0
_VISIBLE_SHARE = 0.1
"""The share of a thinking model's response that stands after </think>, and so in the history."""
_REPLAYED_TOKENS = {True: 60.0, False: 800.0}
"""The longest replayed question, to which all are padded: of small models, and of others."""
_POOL_RECORDS = 15_528
"""Appendix C.1: 1,941 updates of eight sessions."""
_FILE_ROWS = 1_000
"""Rows of a data set that neither the configuration nor a file says."""
_TOKEN_BYTES = 16
"""Text, ids and work log of a response token on disk."""


class Measured(NamedTuple):
    """What a finished run measured."""

    speeds: Mapping[tuple[str, str, str], float] = {}
    """Tokens per second by stage, what is computed, and class, as in `SPEEDS`."""
    tokens: Mapping[tuple[str, str, str], float] = {}
    """Mean tokens of a response by model, benchmark or `training_pool`, and condition; an empty condition: of all."""


class Work(NamedTuple):
    """The jobs of one output that compute with a model."""

    stage: str
    model: str
    name: str
    """The condition or the controller; empty for other outputs."""
    key: tuple[str, str, str]
    """As of `Measured.speeds`."""
    responses: float
    """Generated ones."""
    tokens: float
    speed: float
    """Tokens per second of one GPU, or of one core."""
    rows: float
    """Rows of a decoding batch, else 1."""
    jobs: int
    gpus: int
    """GPUs of each job."""

    @property
    def hours(self) -> float:
        """The hours of all its GPUs, or of one core."""
        return self.tokens / self.speed / 3600.0

    @property
    def job_hours(self) -> float:
        """The hours of one of its jobs."""
        return self.hours / self.jobs / max(1, self.gpus)


class Planner:
    """The arithmetic of one run."""

    def __init__(self, config: Config, paths: RunPaths, measured: Measured | None = None) -> None:
        self._config, self._paths, self._measured = config, paths, measured or Measured()

    def works(self) -> list[Work]:
        """All work with models, in the order of the stages. The other jobs take minutes on a CPU."""
        config, listed = self._config, list[Work]()
        if not config.only_measures:
            listed += map(self._rollouts, config.models)
        own = [key for key, item in config.controllers.items() if item.path is None]  # a published one is copied
        trained = [(model, key) for key in own for model in config.trained(key)]
        listed += [self._training(model, key) for model, key in trained]
        listed += [self._responses(*pair, key) for key in config.every_condition for pair in config.evaluated(key)]
        listed += map(self._replay, config.replay.models if config.replay else ())
        listed += map(self._runtime, config.runtime.models if config.runtime else ())
        order = [*config.models]
        return sorted(listed, key=lambda work: (list(STAGES).index(work.stage), order.index(work.model)))

    def class_of(self, model: str) -> str:
        """The class of models of about one speed; for any other model, the nearest class."""
        known = self._known(model)
        if known is not None and known.hidden_size < 512:
            return "small"
        if known is None or len(known.full_attention_layers) == known.layers:
            return "4B"
        return "hybrid 4B" if known.hidden_size <= 2560 else "hybrid 9B"

    def problems(self) -> dict[str, int]:
        """The problems of each benchmark: of its table where that is current, else by the configuration."""
        return {key: self._problems(key) for key in self._config.benchmarks}

    def _problems(self, benchmark: str) -> int:
        item = self._config.benchmarks[benchmark]
        if (count := self._table_rows(self._paths.benchmark(benchmark))) is not None:
            return count
        if item.subset is not None:
            return item.subset.problems
        return (item.tiny or item.rows or _file_rows(item)) - len(item.exclude_ids)

    def records(self, model: str) -> int:
        """The source records of a model's training pool, with those held out for validation."""
        pool = self._config.training_pool
        if (count := self._table_rows(self._paths.training_pool(model))) is not None:
            return count
        if pool.tiny is not None:
            return pool.tiny + pool.validation_problems
        if pool.subset is not None:
            return pool.subset.problems
        return _POOL_RECORDS + pool.validation_problems if pool.repository is not None else _file_rows(pool)

    def disk_bytes(self) -> dict[str, int]:
        """The bytes of the replay's states, and of responses with their work logs."""
        states, replay = 0, self._config.replay
        for model in replay.models if replay else ():
            assert replay is not None
            known = self._known(model)
            if known is not None:
                states += replay.states_bytes(known.layers, len(known.full_attention_layers), known.hidden_size)
        tokens = sum(work.tokens for work in self.works() if work.stage in ("rollouts", "evaluation"))
        return {"replayed states": states, "responses": round(tokens * _TOKEN_BYTES)}

    # ---------------------------------------------------------------- stages

    def _rollouts(self, model: str) -> Work:
        config = self._config
        responses = self.records(model) * config.rollouts.samples
        tokens = responses * self._tokens(
            model, "training_pool", "", config.models[model].rollout_sampling.max_new_tokens
        )
        if config.engine_section(config.rollout_engine(model)).is_server:
            kind, rows = "SGLang", 1.0
        else:
            kind, rows = "decoding", min(config.transformers.batch_width, responses / config.rollouts.shards)
        return self._work("rollouts", kind, tokens, responses, config.rollouts.shards, rows, model=model)

    def _training(self, model: str, controller: str) -> Work:
        config = self._config
        updates = -(
            -(self.records(model) - config.training_pool.validation_problems) // config.training.sessions_per_update
        )
        sessions = config.training.epochs * updates * config.training.sessions_per_update
        limit = config.models[model].rollout_sampling.max_new_tokens
        tokens = sessions * TURNS * self._tokens(model, "training_pool", "", limit)
        return self._work("training", "training", tokens, model=model, controller=controller)

    def _responses(self, model: str, benchmark: str, condition: str) -> Work:
        config = self._config
        settings, limit = config.condition(condition), config.models[model].sampling_for(benchmark).max_new_tokens
        trajectories, shards = self._problems(benchmark) * config.evaluation.samples, config.shards_of(condition)
        responses = trajectories * (settings.turns - (settings.first_turn is not None))
        tokens = responses * self._tokens(model, benchmark, condition, limit)
        rows = min(settings.batch_width or config.transformers.batch_width, trajectories / shards)
        place = {"model": model, "benchmark": benchmark, "condition": condition}
        return self._work("evaluation", "decoding", tokens, responses, shards, rows, **place)

    def _replay(self, model: str) -> Work:
        replay = self._config.replay
        assert replay is not None
        limit = self._config.models[model].sampling_for(replay.benchmark).max_new_tokens
        response = self._tokens(model, replay.benchmark, replay.condition, limit)
        visible = response * (_VISIBLE_SHARE if self._config.models[model].thinking else 1.0)
        histories = len(replay.groups) * replay.history_coverage.histories
        small = self.class_of(model) == "small"
        tokens = (replay.replays + replay.references) * _REPLAYED_TOKENS[small]
        tokens += histories * replay.depth * (_PROMPT_TOKENS + visible)
        return self._work("replay", "replay", tokens, jobs=replay.shards, model=model)

    def _runtime(self, model: str) -> Work:
        study = self._config.runtime
        assert study is not None
        responses = study.histories * (2 + len(study.prefixes)) * (study.warmups + study.repetitions)
        return self._work("runtime", "one response", responses * study.tokens, responses, model=model)

    # ---------------------------------------------------------------- parts

    def _work(
        self,
        stage: str,
        kind: str,
        tokens: float,
        responses: float = 0.0,
        jobs: int = 1,
        rows: float = 1.0,
        **wildcards: str,
    ) -> Work:
        rule = next(rule for rule in STAGES[stage] if JOBS[rule].engine is not None)
        model = wildcards["model"]
        key = (stage, kind, self.class_of(model))
        speed = self._measured.speeds.get(key, SPEEDS[key[1:]].value)
        name = wildcards.get("controller") or wildcards.get("condition", "")
        gpus = gpus_of(self._config, rule, wildcards)
        return Work(stage, model, name, key, responses, tokens, speed * rows, rows, jobs, gpus)

    def _tokens(self, model: str, problems: str, condition: str, limit: int) -> float:
        """The mean tokens of a response: measured, of all conditions where this one was not, else assumed."""
        measured, thinking = self._measured.tokens, self._config.models[model].thinking
        found = measured.get((model, problems, condition)) or measured.get((model, problems, ""))
        if found is None:
            assumed = MEAN_TOKENS.get((thinking, problems))
            found = assumed.value if assumed else _OTHER_TOKENS[thinking]
        return min(found, float(limit))

    def _known(self, model: str) -> Architecture | None:
        return known_architecture(self._paths.model_folder(self._config, model), model)

    def _table_rows(self, table: Path) -> int | None:
        """The rows of a cleaned table; None unless it was made under the current settings."""
        try:
            manifest = read_manifest(manifest_path(table))
        except (OSError, ValueError):
            return None
        settings = settings_of(self._config, manifest.rule, manifest.wildcards)
        return None if changed_settings(manifest.settings, settings) else _rows(table)


def _file_rows(item: Dataset) -> int:
    path = Path(item.path or "")
    if path.suffix == ".jsonl" and path.is_file():
        with open(path, "rb") as file:
            return sum(bool(line.strip()) for line in file)
    return _rows(path) or _FILE_ROWS


def _rows(path: Path) -> int | None:
    try:
        return int(pq.read_metadata(path).num_rows)
    except (OSError, pa.ArrowInvalid):
        return None


def measured(config: Config, paths: RunPaths) -> Measured:
    """The speeds and lengths of a finished run: its tokens over the seconds of its jobs.

    Seconds of attempts that were cut short are not counted, so a run that was resumed looks too fast.

    Raises:
        ValueError: the run has no provenance.json, which the end of a run writes.
    """
    try:
        generated = json.loads(paths.provenance.read_text(encoding="utf-8"))["costs"]["generated"]
    except (OSError, ValueError, KeyError):
        raise ValueError(f"{paths.provenance} has no token counts; --from needs a finished run") from None
    sums: dict[tuple[str, str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for name, counts in generated.items():
        kind, *rest = name.split("/")
        if kind in ("rollouts", "responses"):
            model, problems, condition = (
                (*rest, "training_pool", "")[:3] if kind == "rollouts" else (*rest[:2], "/".join(rest[2:]))
            )
            for key in {(model, problems, condition), (model, problems, "")}:
                sums[key][0] += counts["response_tokens"]
                sums[key][1] += counts["responses"]
    lengths = {key: tokens / responses for key, (tokens, responses) in sums.items() if responses}
    seconds: dict[tuple[str, str], float] = defaultdict(float)
    for stage, model, took in engine_seconds(paths):
        seconds[stage, model] += took
    found: dict[tuple[str, str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for (stage, model), group in groupby(Planner(config, paths, Measured({}, lengths)).works(), _stage_and_model):
        for work in group:
            found[work.key][0] += work.tokens / work.rows
        found[work.key][1] += seconds[stage, model]
    return Measured({key: tokens / spent for key, (tokens, spent) in found.items() if spent}, lengths)


def engine_seconds(paths: RunPaths) -> Iterator[tuple[str, str, float]]:
    """Stage, model and seconds of the jobs that compute with an engine, by the manifests; a seal has those of its shards."""
    for manifest in map(read_manifest, manifest_files(paths.folder)):
        facts, job = manifest.content, JOBS.get(manifest.rule)
        if job is not None and (job.engine is not None or GENERATING_SECONDS in facts):
            yield job.stage, manifest.wildcards["model"], facts.get(GENERATING_SECONDS, facts.get(SECONDS, 0.0))


def _stage_and_model(work: Work) -> tuple[str, str]:
    return work.stage, work.model


def cost_lines(planner: Planner, gpus: int = 1) -> list[str]:
    """The plan, at most 80 columns wide."""
    works = planner.works()
    on_gpus = any(work.gpus for work in works)
    rows: list[tuple[str, ...]] = [
        ("stage", "model", "responses", "tokens", "tokens/s", "GPU time" if on_gpus else "core time")
    ]
    for (stage, model), group in groupby(works, _stage_and_model):
        listed = list(group)
        rows.append((stage, model, *_cells(listed)))
        names = dict.fromkeys(work.name for work in listed)
        if len(names) > 1:
            for name in names:  # the study of a condition stands before it
                study, _, short = name.rpartition("/")
                rows.append((study, f"  {short}", *_cells([work for work in listed if work.name == name])))
    rows.append(("all", "", *_cells(works)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        sized = list(zip(row, widths, strict=True))
        cells = [*(cell.ljust(width) for cell, width in sized[:2]), *(cell.rjust(width) for cell, width in sized[2:])]
        lines.append("  ".join(cells).rstrip())
    hours, unit = sum(work.hours for work in works), "GPU" if on_gpus else "core"
    chain = max((sum(_longest(works, model)) for model in {work.model for work in works}), default=0.0)
    wall, many = max(chain, hours / gpus), "" if gpus == 1 else "s"
    disk = (f"{bytes_text(size)} of {name}" for name, size in planner.disk_bytes().items() if size)
    return [
        *lines,
        "",
        f"With {gpus} {unit}{many}: {duration(3600 * wall)}; the longest chain of jobs takes {duration(3600 * chain)}.",
        f"Disk: {', '.join(disk)}.",
        "Speeds and lengths are those of stair/pipeline/plan.py, each with its source,",
        "or of a finished run: --from results/<run>.",
    ]


def _longest(works: Sequence[Work], model: str) -> Iterator[float]:
    """The hours of a model's longest job in each stage. The stages of a model follow one another."""
    for _, group in groupby((work for work in works if work.model == model), lambda work: work.stage):
        yield max(work.job_hours for work in group)


def _cells(works: Sequence[Work]) -> tuple[str, ...]:
    responses, tokens = sum(work.responses for work in works), sum(work.tokens for work in works)
    seconds = 3600 * sum(work.hours for work in works)
    return (
        f"{responses:,.0f}" if responses else "",
        f"{tokens / 1e6:,.1f}M" if tokens >= 1e6 else f"{tokens / 1e3:,.0f}K" if tokens >= 1e3 else f"{tokens:,.0f}",
        f"{tokens / seconds:,.0f}",
        duration(seconds),
    )
