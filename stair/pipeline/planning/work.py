"""The work of each job: responses, tokens, seconds and GPU memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from stair.config.model import Config
from stair.core import TURNS
from stair.models.parameters import controller_parameters
from stair.pipeline.model_shape import Shape
from stair.pipeline.planning.assumptions import assumed, mean_tokens
from stair.pipeline.planning.sizes import problems_of, records_of, updates_of
from stair.pipeline.run import Run
from stair.stages.replay.batch_files import Shapes, planned_batches
from stair.stages.replay.measurement.batch_memory import GPU_TILE, replay_memory
from stair.stages.training.operations import session_operations
from stair.stages.training.turn_memory import Turn, layers_to_recompute, turn_memory


@dataclass(frozen=True)
class Work:
    """What one job does."""

    seconds: float
    responses: float = 0.0
    tokens: float = 0.0
    gpu_bytes: float = 0.0
    disk_bytes: float = 0.0


@dataclass(frozen=True)
class Calibration:
    """What a finished run measured."""

    factors: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """Measured over modelled seconds, by rule and model; the model is empty for all models of a rule."""
    means: Mapping[tuple[str, str, str], float] = field(default_factory=dict)
    """Mean tokens of a response, by model, benchmark or `training_pool`, and condition; empty for all conditions."""

    def factor(self, rule: str, model: str) -> float:
        """Measured over modelled seconds. An unmeasured model has its rule's factor, and an unmeasured rule has 1."""
        return self.factors.get((rule, model), self.factors.get((rule, ""), 1.0))

    def tokens(self, model: str, problems: str, condition: str) -> float | None:
        """Mean tokens of a response. An unmeasured condition has the others' mean; None for other models and benchmarks."""
        return self.means.get((model, problems, condition), self.means.get((model, problems, "")))


@dataclass
class CostModel:
    """The arithmetic of one run."""

    run: Run
    learned: Calibration = Calibration()

    @property
    def config(self) -> Config:
        return self.run.config

    def shape(self, model: str) -> Shape:
        return self.run.shape(model)

    @property
    def small(self) -> bool:
        """Whether all models are the project's own small ones."""
        return all(self.shape(model).small for model in self.config.models)

    def work(self, rule: str, wildcards: Mapping[str, str]) -> Work:
        """The work of a job, by its rule and wildcards. Shards share the work of their output equally."""
        work = self._modelled(rule, wildcards)
        return replace(work, seconds=work.seconds * self.learned.factor(rule, wildcards.get("model", "")))

    def _modelled(self, rule: str, wildcards: Mapping[str, str]) -> Work:
        names = {key: value for key, value in wildcards.items() if key not in ("shard", "of")}
        shards = int(wildcards.get("of", 1))
        match rule:
            case "rollout_shard":
                return self._rollouts(shards, **names)
            case "evaluation_shard":
                return self._responses(self.run, shards, **names)
            case "controls_shard":
                return self._responses(self.run.shared_t1, shards, **names)
            case "train_controller" | "train_lora" | "train_lora_stair":
                return self._training(**names)
            case "replay_shard":
                return self._replay(shards, **names)
            case "measure_runtime":
                return self._runtime(**names)
        seconds = assumed("small_cpu_job_seconds" if self.small else "cpu_job_seconds")
        if rule in ("score_condition", "score_controls"):
            run = self.run if rule == "score_condition" else self.run.shared_t1
            rows = problems_of(run, names["benchmark"]) * run.config.evaluation.samples
            seconds += rows * run.config.conditions[names["condition"]].turns * assumed("grading_seconds")
        return Work(seconds)

    def response_tokens(self, model: str, problems: str, condition: str, limit: int) -> float:
        """Mean tokens of a response: measured, or assumed."""
        found = self.learned.tokens(model, problems, condition)
        return min(found, limit) if found else mean_tokens(self.config.models[model].thinking, problems, limit)

    # ---------------------------------------------------------------- stages

    def _rollouts(self, shards: int, model: str) -> Work:
        settings = self.config.models[model].rollout_sampling
        responses = sum(records_of(self.run, model)) * self.config.rollouts.samples / shards
        tokens = self.response_tokens(model, "training_pool", "", settings.max_new_tokens)
        engine, shape = self.config.rollout_engine(model), self.shape(model)
        if self.config.engine_section(engine).is_server and self.config.sglang.device == "cuda":
            room = assumed("server_memory") * self.config.sglang.tensor_parallel - shape.weight_bytes
            fitting = max(1.0, room / (tokens * shape.cache_bytes))
            rows = min(responses, self.config.sglang.concurrency, fitting)
            read = shape.weight_bytes + rows * tokens / 2.0 * shape.cache_bytes
            step = read / (assumed("gpu_bandwidth") * assumed("server_share") * self.config.sglang.tensor_parallel)
            seconds = responses * tokens / max(1.0, rows) * step
        else:
            rows = min(responses, self.config.transformers.batch_width)
            seconds = self.decoding(shape, responses, tokens)
        seconds += self.prefill(shape, responses * assumed("problem_tokens"))
        memory = shape.weight_bytes + rows * tokens * shape.cache_bytes + assumed("gpu_reserve")
        return Work(
            self.start(shape) + seconds,
            responses,
            responses * tokens,
            memory,
            responses * tokens * assumed("bytes_a_token"),
        )

    def _responses(self, run: Run, shards: int, model: str, benchmark: str, condition: str) -> Work:
        config, settings = run.config, run.config.conditions[condition]
        shape, limit = self.shape(model), config.models[model].sampling_for(benchmark).max_new_tokens
        trajectories = problems_of(run, benchmark) * config.evaluation.samples / shards
        first = 2 if settings.first_turn is not None else 1
        turns = range(first, settings.turns + 1)
        tokens = self.response_tokens(model, benchmark, condition, limit)
        visible = self.visible(model, tokens)
        prompts = [assumed("problem_tokens") * turn + visible * (turn - 1) for turn in turns]
        responses = trajectories * len(turns)
        seconds = self.decoding(shape, responses, tokens, width=settings.batch_width, waiting=trajectories)
        seconds += sum(self.prefill(shape, trajectories * prompt) for prompt in prompts)
        reads = config.reads_bank(condition)
        if reads and first == 2:
            seconds += self.prefill(shape, trajectories * tokens)  # the bank of the first turn
        rows = min(trajectories, settings.batch_width or config.transformers.batch_width)
        context = max(prompts, default=0.0) + limit
        bank = 0.0
        if reads and settings.controller is not None:
            layers = len(config.controllers[settings.controller].controlled_layers)
            bank = limit * (settings.turns - 1) * layers * shape.cache_numbers * shape.width
        memory = shape.weight_bytes + rows * context * shape.cache_bytes + bank + assumed("gpu_reserve")
        disk = responses * tokens * assumed("bytes_a_token")
        return Work(self.start(shape) + seconds, responses, responses * tokens, memory, disk)

    def _training(self, model: str, controller: str) -> Work:
        config, shape = self.config, self.shape(model)
        training = config.training
        limit = config.models[model].rollout_sampling.max_new_tokens
        tokens = self.response_tokens(model, "training_pool", "", limit)
        updates = updates_of(self.run, model)
        sessions = updates * training.sessions_per_update
        # Training and validation sessions are measured before and after, validation sessions also in between.
        checks = 2 * 2 + (updates // training.validation_every if training.validation_every else 0)
        # A measured session has no backward pass.
        measured = checks * training.validation_sessions
        parts = self._session_operations(model, controller, tokens)
        forward = parts["teacher"] + parts["student forward"] + 2 / 3 * parts["loss"]
        rate = self.rate("training_share", shape) * (1 if self.on_cpu else training.workers)
        seconds = (sessions * sum(parts.values()) + measured * forward) / rate
        # Every turn has passes over the layers: teacher, student, backward, and the layers that run again.
        passes = sessions * (3 + bool(parts["again"])) + measured * 2
        seconds += passes * TURNS * shape.layers * self.layer_step(shape) / training.workers
        return Work(self.start(shape) + seconds, gpu_bytes=self._training_memory(model, controller, limit))

    def _replay(self, shards: int, model: str) -> Work:
        replay, shape = self.run.replay, self.shape(model)
        limit = self.config.models[model].sampling_for(replay.benchmark).max_new_tokens
        response = self.response_tokens(model, replay.benchmark, replay.condition, limit)
        batches = planned_batches(replay)
        depths = [len(batch.depths(replay.depth)) for batch in batches]
        # A history's prefixes extend one another: a pass for each depth computes its further tokens.
        histories = len(replay.groups) * replay.history_coverage.histories
        turn = assumed("small_replay_tokens" if shape.small else "replay_tokens")
        tokens = sum(depths) * replay.batch_problems * turn
        tokens += histories * self._history_tokens(model, replay.depth, response)
        passes = sum(depths) + histories * replay.depth
        seconds = self.prefill(shape, tokens / shards)
        seconds += passes / shards * shape.layers * self.layer_step(shape)
        shapes = Shapes(shape.layers, shape.attention_layers, shape.hidden_size, replay.layers, replay.depth)
        disk = shapes.nbytes(batches) / shards
        return Work(self.start(shape) + seconds, gpu_bytes=self._replay_memory(model), disk_bytes=disk)

    def _runtime(self, model: str) -> Work:
        study, shape = self.run.runtime, self.shape(model)
        rows = 2 + (3 if study.prefixes == "quartiles" else len(study.prefixes))
        repetitions = study.histories * rows * len(study.variants) * (study.warmups + study.repetitions)
        seconds = self.decoding(shape, repetitions, study.tokens, width=1)
        seconds += self.prefill(shape, repetitions * 4 * assumed("problem_tokens"))
        bank = max((0, *study.curve)) * 3 * shape.cache_numbers * shape.width
        memory = shape.weight_bytes + 2 * bank + 2 * assumed("gpu_reserve")
        return Work(self.start(shape) + seconds, gpu_bytes=memory)

    # ---------------------------------------------------------------- parts

    def _session_operations(self, model: str, controller: str, tokens: float) -> dict[str, float]:
        """Operations of a session whose responses all have so many tokens, by part."""
        shape, settings = self.shape(model), self.config.controllers[controller]
        problem = assumed("problem_tokens")
        again = self.config.training.checkpoint_activations
        if not shape.config:
            each = 2.0 * shape.parameters * TURNS * (tokens + problem)
            return {
                "teacher": each,
                "student forward": each,
                "again": each * bool(again),
                "backward": each,
                "loss": 0.0,
            }
        recomputed = shape.layers if again else 0
        if again == "auto" and not self.on_cpu:
            turn, sizes = self._last_turn(model, round(tokens)), self._sizes(model, controller)
            # At this turn, the student's pass begins beside the weights and, without an adapter, the history's native states.
            present = shape.weight_bytes + (0 if settings.adapts else turn.history * shape.cache_bytes)
            free = assumed("training_memory") - assumed("gpu_reserve") - present
            recomputed = layers_to_recompute(shape.config, turn, round(free), **sizes)
        return session_operations(
            shape.config,
            round(problem),
            round(tokens),
            round(self.visible(model, tokens)),
            layers=settings.controlled_layers,
            reads=settings.reads,
            adapts=settings.adapts,
            recomputed=recomputed,
        )

    def _training_memory(self, model: str, controller: str, limit: int) -> float:
        """GPU bytes at the last turn of a session whose responses all reach the output limit, if all layers run again."""
        shape = self.shape(model)
        if not shape.config:
            return shape.weight_bytes + assumed("gpu_reserve")
        parts = turn_memory(shape.config, self._last_turn(model, limit), **self._sizes(model, controller))
        return sum(parts.values()) + assumed("gpu_reserve")

    def _last_turn(self, model: str, tokens: int) -> Turn:
        """The last turn of a session whose responses all have so many tokens."""
        before, problem = TURNS - 1, round(assumed("problem_tokens"))
        return Turn(round(before * (problem + self.visible(model, tokens))), problem, tokens, before * tokens)

    def _sizes(self, model: str, controller: str) -> dict[str, Any]:
        """The other arguments of `turn_memory`."""
        shape, settings = self.shape(model), self.config.controllers[controller]
        return {
            "weights": shape.parameters,
            "layers": settings.controlled_layers,
            # An adapter's are within the reserve.
            "trained": controller_parameters(shape.config, settings.controlled_layers),
            "adapts": settings.adapts,
            "width": shape.width,
            "flash": self.flash(shape),
        }

    def _replay_memory(self, model: str) -> float:
        """GPU bytes of a history whose responses all reach the output limit."""
        shape, replay = self.shape(model), self.run.replay
        if not shape.config:
            return shape.weight_bytes + assumed("gpu_reserve")
        limit = self.config.models[model].sampling_for(replay.benchmark).max_new_tokens
        needed = replay_memory(
            shape.config,
            prefix=round(self._history_tokens(model, replay.depth, limit)),
            rows=replay.batch_problems,
            columns=round(assumed("replay_tokens")),
            tile=GPU_TILE,
            weights=shape.parameters,
            width=shape.width,
            flash=self.flash(shape),
        )
        return needed + assumed("gpu_reserve")

    def _history_tokens(self, model: str, depth: int, response: float) -> float:
        """The tokens of a history of so many turns, whose responses have so many tokens each."""
        return depth * (assumed("problem_tokens") + self.visible(model, response))

    def visible(self, model: str, tokens: float) -> float:
        """The tokens of the visible answer in a response, which enters the history."""
        return tokens * (assumed("visible_share") if self.config.models[model].thinking else 1.0)

    def flash(self, shape: Shape) -> bool:
        """Whether native attention needs no mask behind a prefix: FlashAttention2, or SDPA in 16 bits on a GPU."""
        return shape.width == 2 and self.config.transformers.attention != "eager"

    @property
    def on_cpu(self) -> bool:
        return self.config.transformers.device == "cpu"

    def start(self, shape: Shape) -> float:
        """Seconds before a job's first response."""
        return assumed("small_start_seconds" if shape.small else "start_seconds")

    def layer_step(self, shape: Shape) -> float:
        """Seconds that a layer takes at least in a pass, whose kernels the host launches."""
        if self.on_cpu:
            return assumed("cpu_layer_step_seconds")
        return _by_layers("layer_step_seconds", shape)

    def decoding(
        self, shape: Shape, responses: float, tokens: float, *, width: int | None = None, waiting: float | None = None
    ) -> float:
        """Seconds of decoding with Transformers.

        A step costs the kernels of its layers, or the bytes that it reads, or the operations, whichever takes longer.
        `waiting`: rows that can be decoded at once, where fewer than all responses.
        """
        width = width or self.config.transformers.batch_width
        rows = max(1.0, min(width, responses if waiting is None else waiting))
        read = shape.weight_bytes + rows * tokens / 2.0 * shape.cache_bytes
        moved = 0.0 if self.on_cpu else read / assumed("gpu_bandwidth")
        computed = 2.0 * shape.parameters * width / (assumed("cpu_flops") if self.on_cpu else assumed("gpu_flops"))
        layer = assumed("cpu_layer_step_seconds" if self.on_cpu else "recorded_layer_seconds")
        step = max(shape.layers * layer, moved, computed)
        return responses * tokens / rows * step

    def prefill(self, shape: Shape, tokens: float) -> float:
        return 2.0 * shape.parameters * tokens / self.rate("prefill_share", shape)

    def rate(self, share: str, shape: Shape) -> float:
        """Operations a second, of a GPU by its share of the published ones."""
        return assumed("cpu_flops") if self.on_cpu else _by_layers(share, shape) * assumed("gpu_flops")


def _by_layers(name: str, shape: Shape) -> float:
    """A figure that hybrids have another value of."""
    return assumed(f"{name}_hybrid" if shape.hybrid else name)
