"""What a run costs, before it starts: responses, tokens, hours, GPU memory and disk. Imports no torch.

Hours are tokens over tokens per second. The tables below name the source of each figure; most are rough, so a plan is right
within a factor of two. `measured` takes them from a finished run.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from math import ceil
from operator import attrgetter
from pathlib import Path
from textwrap import wrap
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from stair.config.datasets import Dataset
from stair.config.model import Config
from stair.config.paths import RunPaths, anchored
from stair.core import TURNS
from stair.models.architecture import Architecture
from stair.models.model_folder import known_architecture
from stair.pipeline.jobs import JOBS, STAGES, gpus_of, settings_of
from stair.pipeline.verify import Receipts
from stair.records.files import bytes_text
from stair.records.gpus import visible_gpus
from stair.records.manifest import (
    GENERATED,
    GENERATING_SECONDS,
    MEASURED,
    SECONDS,
    changed_settings,
    manifest_path,
    read_manifest,
)
from stair.records.progress import duration
from stair.records.text_tables import aligned

CLASSES = ("small", "4B", "hybrid 4B", "hybrid 9B")
"""Models of about one speed: the tiny run's, Qwen3-4B, Qwen3.5-4B and Qwen3.5-9B."""
SPEEDS = {
    "SGLang": (700, 5_100, 5_000, 3_800),  # not measured: half of an H100's bandwidth for weights and caches
    "decoding": (14, 98, 110, 100),  # 98: 6,265 tokens/s in 64 rows
    "one response": (206, 119, 110, 100),  # 119: decoding at batch 1
    "training": (320, 3_400, 1_560, 1_770),  # 8,192 tokens in 2.40, 5.25 and 4.64 s
    "replay": (44_000, 20_800, 9_000, 4_500),  # 20,800: 16 questions of 200 tokens in 0.154 s
}
"""Tokens per second of one GPU (of a small model: of one core), by what is computed, of each class. Decoding: of each row of the
batch. Small models: docs/tiny.md. The others with a comment: benchmarks/gpu.md. The rest: not measured."""
GIB = {"weights": (0.0, 7.5, 8.0, 17.0), "training": (0.0, 0.64, 0.31, 0.36)}
"""GiB of each class's weights in BF16, and of a training for each 1,000 tokens of its longest response, with the inputs of its
layers in host memory: docs/training.md."""
_USABLE = 0.95
"""The share of a GPU's memory that a job can use."""

MEAN_TOKENS = {
    "math500": (1_040, 12_000),  # 1,040: appendix A.1, median histories of 3,017 and 4,103 tokens, less the prompts
    "aime2025": (6_000, 51_000),  # 51,000: appendix C.4, shared T1: the median of banks, and how many exceed 8K and 32K
    "amc23": (3_000, 20_000),
    "gpqa_diamond": (3_000, 16_000),
    "training_pool": (3_500, 16_000),
}
"""Mean tokens of a response without and with thinking, never more than the output limit. Those without a comment: guesses."""
_OTHER_TOKENS = (3_000, 16_000)
"""The same on other benchmarks."""
_SMALL_TOKENS = 48.0
"""The same of small models: the output limit of the tiny run, for which their speeds hold."""

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
    """GPUs of each job; 0: it computes on a core."""
    gib: float = 0.0
    """The memory that it needs of each GPU, at least."""

    @property
    def hours(self) -> float:
        """The hours of all its GPUs, or of one core."""
        return self.tokens / self.speed / 3600.0

    @property
    def job_hours(self) -> float:
        """The hours of one of its jobs."""
        return self.hours / self.jobs / max(1, self.gpus)


_stage_and_model = attrgetter("stage", "model")


class Planner:
    """The arithmetic of one run."""

    def __init__(self, config: Config, paths: RunPaths, measured: Measured | None = None) -> None:
        self._config, self._paths, self._measured = config, paths, measured or Measured()

    def with_workers(self, workers: int) -> Planner:
        """The same run with so many workers of each training."""
        training = self._config.training.model_copy(update={"workers": workers})
        return Planner(self._config.model_copy(update={"training": training}), self._paths, self._measured)

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

    def assumed_sizes(self) -> Iterator[str]:
        """A line for each data set of a local file that does not exist yet."""
        datasets = {f"benchmarks.{key}": each for key, each in self._config.benchmarks.items()}
        for key, item in (datasets | {"training_pool": self._config.training_pool}).items():
            if item.path is not None and not anchored(item.path).exists():
                yield f"{_FILE_ROWS:,} problems of {key}: {item.path} does not exist"

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
        config, limit = self._config, self._config.models[model].rollout_sampling.max_new_tokens
        responses = self.records(model) * config.rollouts.samples
        tokens = responses * self._tokens(model, "training_pool", "", limit)
        if config.engine_section(config.rollout_engine(model)).is_server:
            kind, rows = "SGLang", 1.0
        else:
            kind, rows = "decoding", min(config.transformers.batch_width, responses / config.rollouts.shards)
        return self._work("rollouts", kind, tokens, responses, config.rollouts.shards, rows, model=model)

    def _training(self, model: str, controller: str) -> Work:
        config = self._config
        trained, of_update = (
            self.records(model) - config.training_pool.validation_problems,
            config.training.sessions_per_update,
        )
        sessions = config.training.epochs * ceil(trained / of_update) * of_update
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
        speed = self._measured.speeds.get(key, self._figure(SPEEDS[kind], model))
        name = wildcards.get("controller") or wildcards.get("condition", "")
        gpus = 0 if key[2] == "small" else gpus_of(self._config, rule, wildcards)
        gib = self._weights(model)
        if stage == "training":
            gib += (
                self._figure(GIB["training"], model)
                * self._config.models[model].rollout_sampling.max_new_tokens
                / 1000.0
            )
        else:
            gib /= max(1, gpus)
        return Work(stage, model, name, key, responses, tokens, speed * rows, rows, jobs, gpus, gib)

    def _weights(self, model: str) -> float:
        """The GiB of a model's weights: of its files, before they are fetched those of its class."""
        files = self._paths.model_folder(self._config, model).glob("*.safetensors")
        return sum(file.stat().st_size for file in files) / 2**30 or self._figure(GIB["weights"], model)

    def _figure(self, of_classes: Sequence[float], model: str) -> float:
        return of_classes[CLASSES.index(self.class_of(model))]

    def _tokens(self, model: str, problems: str, condition: str, limit: int) -> float:
        """The mean tokens of a response: measured, of all conditions where this one was not, else assumed."""
        measured, thinking = self._measured.tokens, self._config.models[model].thinking
        found = measured.get((model, problems, condition)) or measured.get((model, problems, ""))
        if found is None:
            small = self.class_of(model) == "small"
            found = _SMALL_TOKENS if small else MEAN_TOKENS.get(problems, _OTHER_TOKENS)[thinking]
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
    path = anchored(item.path or "")
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
    seconds = engine_seconds(paths)
    found: dict[tuple[str, str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    works = Planner(config, paths, Measured({}, lengths)).works()
    for job, group in groupby((work for work in works if _stage_and_model(work) in seconds), _stage_and_model):
        for work in group:
            found[work.key][0] += work.tokens / work.rows
        found[work.key][1] += seconds[job]
    return Measured({key: tokens / spent for key, (tokens, spent) in found.items() if spent}, lengths)


def engine_seconds(paths: RunPaths) -> dict[tuple[str, str], float]:
    """The seconds of the jobs that compute with an engine, by stage and model, by the manifests.

    A seal has those of its shards. Work whose seconds no attempt has recorded (it was killed, or another run did it) is taken
    to have had the same speed.
    """
    sums = defaultdict[tuple[str, str], list[float]](lambda: [0.0, 0, 0])
    for manifest in Receipts(paths.folder).manifests:
        facts, job = manifest.content, JOBS.get(manifest.rule)
        if job is not None and (job.engine is not None or GENERATED in facts):
            pieces = facts.get("responses", len(facts.get(MEASURED, (None,))))
            counts = facts.get(GENERATING_SECONDS, facts.get(SECONDS, 0.0)), facts.get(GENERATED, 1), pieces
            key = job.stage, manifest.wildcards["model"]
            sums[key] = [total + count for total, count in zip(sums[key], counts, strict=True)]
    return {key: seconds * pieces / generated for key, (seconds, generated, pieces) in sums.items() if generated}


class Machine(NamedTuple):
    """What computes a run."""

    cores: int
    gpus: int
    gpu_memory: float = 80
    """GB of each GPU."""

    @classmethod
    def here(cls) -> Machine:
        """This machine; one without a GPU counts as one with a GPU, for runs that need it."""
        return cls(os.cpu_count() or 1, max(1, len(visible_gpus())))


def cost_lines(planner: Planner, machine: Machine) -> list[str]:
    """The plan, at most 80 columns wide."""
    works = planner.works()
    unit = "GPU" if any(work.gpus for work in works) else "core"
    rows: list[tuple[str, ...]] = [("stage", "model", "responses", "tokens", "tokens/s", f"{unit} time")]
    for (stage, model), group in groupby(works, _stage_and_model):
        listed = list(group)
        rows.append((stage, model, *_cells(listed)))
        alike = defaultdict[tuple[str, ...], list[str]](list)
        for name in dict.fromkeys(work.name for work in listed):
            study, _, short = name.rpartition("/")  # the study of a condition stands before it
            alike[study, *_cells([work for work in listed if work.name == name])].append(short)
        for (study, *cells), names in alike.items() if len(listed) > 1 else ():
            more = f" and {len(names) - 1} more, each" if len(names) > 1 else ""
            rows.append((study, f"  {names[0]}{more}", *cells))
    rows.append(("all", "", *_cells(works)))
    wall, chain = wall_hours(works, machine)
    many = f"{machine.gpus if unit == 'GPU' else machine.cores} {unit}"
    disk = (f"{bytes_text(size)} of {name}" for name, size in planner.disk_bytes().items() if size)
    facts = [
        (
            "wall time",
            f"{_text(wall)} with {many}{'' if many[:2] == '1 ' else 's'}; longest chain {_text(chain)}",
        ),
        *(("", hint) for hint in _workers_hint(planner, machine, wall)),
        *(("GPU memory", line) for line in _too_large(works, machine)),
        ("disk", ", ".join(disk)),
        *(("assumed", line) for line in planner.assumed_sizes()),
        ("speeds", "from stair/pipeline/plan.py; a finished run's: --from results/<run>"),
    ]
    named = (wrap(text, 80, initial_indent=f"{name:12}", subsequent_indent=" " * 12) for name, text in facts)
    return [*aligned(rows, left=2), "", *(line for lines in named for line in lines)]


def wall_hours(works: Sequence[Work], machine: Machine) -> tuple[float, float]:
    """The hours of a run, at least, and of its longest chain of jobs. The stages of a model follow one another."""
    chains = defaultdict[str, float](float)
    for (_, model), group in groupby(works, _stage_and_model):
        chains[model] += max(work.job_hours for work in group)
    longest = max(chains.values(), default=0.0)
    on_gpus = sum(work.hours for work in works if work.gpus) / machine.gpus
    on_cores = sum(work.hours for work in works if not work.gpus) / machine.cores
    return max(longest, on_gpus, on_cores), longest


def _workers_hint(planner: Planner, machine: Machine, wall: float) -> Iterator[str]:
    """The fewest workers of each training with about the shortest wall time, if they save a twentieth."""
    counts = range(2, machine.gpus + 1)
    times = {count: wall_hours(planner.with_workers(count).works(), machine)[0] for count in counts}
    best = min(times.values(), default=wall)
    if best < 0.95 * wall:
        count = next(count for count, hours in times.items() if hours <= 1.02 * best)
        yield f"{_text(times[count])} with --set training.workers={count}, {_text(wall - times[count])} less"


def _too_large(works: Sequence[Work], machine: Machine) -> Iterator[str]:
    """A line for each model and stage whose jobs do not fit a GPU, with what to do."""
    room = _USABLE * machine.gpu_memory
    large = {(work.stage, work.model): work for work in works if work.gpus and work.gib > room}
    for (stage, model), work in large.items():
        weights, longer = (GIB[name][CLASSES.index(work.key[2])] for name in ("weights", "training"))
        advice = f"leave the model out (select) or use larger GPUs (--gpu-memory {ceil(work.gib / _USABLE)})"
        if stage == "training" and (thousands := int((room - weights) / longer)) > 0:
            advice = f"set models.{model}.rollout_sampling.max_new_tokens to {thousands}000, {advice}"
        elif work.key[1] == "SGLang":
            advice = f"set sglang.tensor_parallel, {advice}"
        yield f"{stage} {model} can need {work.gib:.0f} GiB, too much for {machine.gpu_memory:g} GB: {advice}"


def _text(hours: float) -> str:
    return duration(3600.0 * hours)


def _cells(works: Sequence[Work]) -> tuple[str, ...]:
    responses, tokens = sum(work.responses for work in works), sum(work.tokens for work in works)
    seconds = 3600.0 * sum(work.hours for work in works)
    return (
        f"{responses:,.0f}" if responses else "",
        f"{tokens / 1e6:,.1f}M" if tokens >= 1e6 else f"{tokens / 1e3:,.0f}K" if tokens >= 1e3 else f"{tokens:,.0f}",
        f"{tokens / seconds:,.0f}",
        duration(seconds),
    )
