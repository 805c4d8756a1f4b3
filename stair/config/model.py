"""The typed configuration. Every key has a description here and a sentence in `config.yaml`; unknown keys are refused."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Key = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$")]
"""A key that names files: lower case letters, digits, dot, dash, underscore."""

Text = Annotated[str, Field(min_length=1)]
Positive = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(gt=0, le=1)]
Layers = Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(strict=False, min_length=1)]


Keys = Annotated[tuple[Key, ...], Field(strict=False)]
Texts = Annotated[tuple[str, ...], Field(strict=False)]


EngineName = Literal["transformers", "sglang"]


class Strict(BaseModel):
    """Refuses unknown keys and values of another type; cannot be changed once made."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Sampling(Strict):
    """How a response is drawn; docs/sampling.md is the law."""

    temperature: float = Field(1.0, ge=0, description="Softmax temperature; 0 is greedy decoding.")
    top_p: Share = Field(1.0, description="Nucleus mass.")
    top_k: int = Field(0, ge=0, description="How many of the most probable tokens stay; 0 keeps all.")
    min_p: float = Field(0.0, ge=0, lt=1, description="Least probability, as a share of the most probable token's.")
    presence_penalty: float = Field(
        0.0, description="Subtracted from the logits of tokens already generated in this response."
    )
    repetition_penalty: float = Field(
        1.0, gt=0, description="Divides (or multiplies, when negative) logits of tokens seen."
    )
    max_new_tokens: Positive = Field(description="Output limit: newly generated tokens of one response.")


class SamplingChange(Strict):
    """Sampling keys that one benchmark changes; what is left out stays as the model has it."""

    temperature: float | None = Field(None, ge=0)
    top_p: Share | None = None
    top_k: int | None = Field(None, ge=0)
    min_p: float | None = Field(None, ge=0, lt=1)
    presence_penalty: float | None = None
    repetition_penalty: float | None = Field(None, gt=0)
    max_new_tokens: Positive | None = None


class TinyBackbone(Strict):
    """A small model of a real architecture that the workflow trains itself; it stands for the model that it is listed as."""

    architecture: Literal["qwen3", "qwen3_5"] = Field(description="Architecture, with Transformers' own classes.")
    layers: int = Field(ge=1, description="Transformer blocks.")
    hidden_size: Positive = Field(description="Width of the residual stream.")
    heads: Positive = Field(description="Query heads.")
    kv_heads: Positive = Field(description="Key/value heads.")
    head_dim: Positive = Field(description="Width of a head.")
    ffn: Positive = Field(description="Width of the MLP.")
    steps: Positive = Field(description="Training steps.")
    batch_tokens: Positive = Field(description="Tokens in a training step.")
    learning_rate: float = Field(gt=0, description="Peak learning rate of AdamW.")
    seeds: tuple[str, ...] = Field(
        strict=False,
        min_length=1,
        description="Names of seeds, tried in order until accuracies lie within bounds; the last is kept in any case.",
    )


class Model(Strict):
    """A backbone: where it lies, how it talks, how it samples."""

    label: str = Field(description="The name in tables and figures.")
    repository: str | None = Field(None, description="The model's repository on the hub.")
    revision: str | None = Field(None, description="The repository's commit; null where none has been recorded yet.")
    path: str | None = Field(None, description="A local model folder, in place of the repository.")
    tiny: TinyBackbone | None = Field(
        None, description="A small backbone to train here, in place of a repository or folder."
    )
    template_sha256: str | None = Field(
        None,
        pattern=r"^[0-9a-f]{64}$",
        description="SHA-256 of the chat template that the model must have; null takes the one of the first preflight.",
    )
    thinking: bool = Field(description="Thinking mode: responses open with reasoning that ends at `</think>`.")
    dtype: Literal["bfloat16", "float32", "float64"] = Field(
        "bfloat16", description="Working precision of the backbone."
    )
    rollout_engine: EngineName | None = Field(
        None, description="The engine of its training responses; null takes `rollouts.engine`."
    )
    rollout_sampling: Sampling = Field(description="Sampling of the training responses (appendix D.1).")
    evaluation_sampling: Sampling = Field(description="Sampling at evaluation (table evaluation-decoding).")
    evaluation_changes: dict[Key, SamplingChange] = Field(
        default_factory=dict, description="What a benchmark changes in the evaluation sampling, by benchmark."
    )

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        given = [name for name in ("repository", "path", "tiny") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"give exactly one of repository, path and tiny (given: {', '.join(given) or 'none'})")
        return self

    def sampling_for(self, benchmark: str) -> Sampling:
        """The evaluation sampling on one benchmark."""
        change = self.evaluation_changes.get(benchmark)
        return self.evaluation_sampling.model_copy(update=change.model_dump(exclude_none=True) if change else {})


class Columns(Strict):
    """Where a data set keeps things; dots go into nested values (`reward_model.ground_truth`, `prompt.0.content`)."""

    problem: str = Field("problem", description="The problem's text.")
    answer: str = Field("answer", description="The reference answer.")


class BenchmarkColumns(Columns):
    """Where a benchmark keeps things."""

    id: str | None = Field(None, description="The data set's own identity of a problem; null numbers the rows from 0.")
    wrong_choices: Texts = Field(
        (), description="The wrong options of a multiple-choice problem; `answer` then holds the right one."
    )


class Dataset(Strict):
    """A table of problems and answers: on the hub, in a local file, or generated."""

    repository: str | None = Field(None, description="The data set's repository on the hub.")
    revision: str | None = Field(None, description="The repository's commit; null where none has been recorded yet.")
    file: str | None = Field(None, description="The file within the repository.")
    path: str | None = Field(None, description="A local file (.parquet, .jsonl, .csv), in place of the repository.")
    tiny: Positive | None = Field(None, description="How many problems to generate here, in place of a file.")
    columns: Columns = Field(default_factory=Columns, description="Where the data set keeps problems and answers.")
    publish_text: bool = Field(
        True,
        description="Whether its text may stand in what is published; false leaves ids, hashes, letters and verdicts.",
    )

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        given = [name for name in ("repository", "path", "tiny") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"give exactly one of repository, path and tiny (given: {', '.join(given) or 'none'})")
        if self.repository is not None and self.file is None:
            raise ValueError(f"file must name the file within {self.repository}")
        return self


class Benchmark(Dataset):
    """An evaluation set."""

    columns: BenchmarkColumns = Field(
        default_factory=BenchmarkColumns, description="Where the data set keeps problems, answers, identities, options."
    )
    exclude_ids: Texts = Field((), description="Identities of problems that are left out.")
    label: str = Field(description="The name in tables and figures.")
    kind: Literal["math", "integer", "choice"] = Field("math", description="How answers are compared.")
    prompt: Key = Field("math", description="Which of `prompts` its problems are asked with.")
    rows: Positive | None = Field(None, description="How many rows the data set must have; null accepts any.")
    mathematical: bool = Field(True, description="Whether it enters the pooled mathematical comparison.")


class TrainingPool(Dataset):
    """The problems that training responses are drawn for."""

    name: str = Field(description="The data set's name; enters the seeds of its responses.")
    prompt: Key = Field("training", description="Which of `prompts` its problems are asked with.")
    strip_prefixes: Texts = Field((), description="Fixed openings to remove from problem texts.")
    strip_suffixes: Texts = Field((), description="Fixed endings to remove from problem texts.")
    exclude_benchmarks: Keys = Field(
        (), description="Benchmarks whose problems (by normalised text) must not be trained on, for every model."
    )
    exclude_more: dict[Key, Keys] = Field(default_factory=dict, description="Further benchmarks to exclude, by model.")
    validation_problems: int = Field(ge=0, description="Problems held out for validation.")
    seed: Text = Field("validation", description="Names the split.")

    def excluded_for(self, model: str) -> list[str]:
        """The benchmarks whose problems a model must not be trained on."""
        return list(dict.fromkeys([*self.exclude_benchmarks, *self.exclude_more.get(model, ())]))


class Rollouts(Strict):
    """Training responses."""

    samples: Literal[4] = Field(4, description="Responses to a source record: one for each of the four turn columns.")
    engine: EngineName = Field("transformers", description="The engine that generates them; a model can have another.")
    shards: Positive = Field(description="How many jobs share a model's rollouts. Changes no result.")
    seed: Text = Field("rollouts", description="Enters every sample's seed.")


class Sessions(Strict):
    """Four-turn sessions for training and the evaluation's schedule."""

    seed: Text = Field("sessions", description="Names every order that is drawn.")


class Optimizer(Strict):
    """AdamW."""

    learning_rate: float = Field(gt=0, description="Learning rate.")
    weight_decay: float = Field(0.0, ge=0, description="Decoupled weight decay.")
    betas: tuple[float, float] = Field((0.9, 0.999), strict=False, description="Decay rates of the moments.")
    eps: float = Field(1e-8, gt=0, description="Added to the denominator.")


_ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors")
_TOLD_FILES = ("curve.csv", "README.md")
CONTROLLER_FILES = {
    "stair": ("controller.safetensors", *_TOLD_FILES),
    "bank_free": ("controller.safetensors", *_TOLD_FILES),
    "lora": (*_ADAPTER_FILES, *_TOLD_FILES),
    "lora_stair": ("controller.safetensors", *_ADAPTER_FILES, *_TOLD_FILES),
}
"""What a trained controller's folder holds beside its manifest, by kind: normals or scales, an adapter as PEFT writes it."""


class Adapter(Strict):
    """Low-rank adaptation of the backbone's projections, without dropout, with an optimiser and a schedule of its own."""

    rank: Positive = Field(2, description="Rank of every update.")
    alpha: Positive = Field(4, description="Numerator of the update's scale, alpha / rank.")
    projections: Texts = Field(
        ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
        min_length=1,
        description="Projections that are adapted, in all layers.",
    )
    warmup_updates: int = Field(
        ge=0, description="Updates of linear warm-up; a cosine takes the learning rate from there to zero."
    )
    optimizer: Optimizer = Field(description="The optimiser's settings; its learning rate is the schedule's peak.")


class Controller(Strict):
    """Something that is trained on a frozen backbone."""

    kind: Literal["stair", "bank_free", "lora", "lora_stair"] = Field(
        description="What it is: reflected reads of the bank, scales that read no bank, an adapter, or an adapter with reads."
    )
    models: Keys | None = Field(None, description="The models it is trained for; null is all.")
    layers: Layers | None = Field(
        None, description="Controlled layers, counted from zero; each must be full attention. Null for lora."
    )
    smoothing: float = Field(
        1e-6, gt=0, lt=1, description="Epsilon of the reference distribution (eq. method-reference)."
    )
    seed: Text = Field(description="Names the initial values and the order of sessions.")
    optimizer: Optimizer | None = Field(None, description="The optimiser of normals or scales. Null for lora.")
    adapter: Adapter | None = Field(None, description="The adapter of lora and lora_stair.")

    @model_validator(mode="after")
    def _parts(self) -> Self:
        for part, wanted in (("layers", self.controls), ("optimizer", self.controls), ("adapter", self.adapts)):
            if (getattr(self, part) is not None) != wanted:
                raise ValueError(f"a controller of kind '{self.kind}' {'needs' if wanted else 'has no'} {part}")
        return self

    @property
    def controls(self) -> bool:
        """Whether it acts at controlled layers: it has normals or scales."""
        return self.kind != "lora"

    @property
    def reads(self) -> bool:
        """Whether it reads the bank."""
        return self.kind in ("stair", "lora_stair")

    @property
    def adapts(self) -> bool:
        """Whether it has an adapter."""
        return self.kind in ("lora", "lora_stair")

    @property
    def controlled_layers(self) -> tuple[int, ...]:
        """The layers that it acts at: none for an adapter alone."""
        return self.layers or ()

    @property
    def files(self) -> tuple[str, ...]:
        """What its folder holds beside the manifest, weights first."""
        return CONTROLLER_FILES[self.kind]


class Training(Strict):
    """What all controllers share."""

    sessions_per_update: Positive = Field(8, description="Four-turn sessions in an optimiser step.")
    epochs: Positive = Field(1, description="Passes over the training sessions.")
    cross_entropy: float = Field(1.0, ge=0, description="Coefficient of the cross entropy.")
    kl: float = Field(1.0, ge=0, description="Coefficient lambda of KL(native || student) (eq. method-objective).")
    validation_sessions: int = Field(
        ge=0, description="Validation sessions, and as many training sessions, whose loss is measured before and after."
    )
    validation_every: Positive | None = Field(
        None,
        description="Updates from one measurement of the validation loss to the next; null: before and after alone.",
    )
    checkpoint_activations: bool = Field(
        True, description="Whether layers are run again in the backward pass, which saves memory. Changes no result."
    )
    workers: Positive = Field(
        1, description="Processes that share an update's sessions, one GPU each. Changes rounding."
    )


class Condition(Strict):
    """A way to answer the benchmark: with which history, with which read."""

    label: str = Field(description="The name in tables and figures.")
    turns: Literal[1, 4] = Field(4, description="Turns of a session; 1 answers every problem without history.")
    first_turn: Key | None = Field(
        None, description="The condition whose saved T1 responses are reused; null generates its own."
    )
    controller: Key | None = Field(None, description="The controller that reads the bank; null reads none.")
    variant: Literal["differential", "zero"] = Field(
        "differential", description="How the bank is read; zero reads it and adds the readout times zero."
    )
    repeats: Key | None = Field(
        None,
        description="The condition that this one asks again: their paired differences are noise, and no response is "
        "taken over between them.",
    )
    batch_width: Positive | None = Field(
        None, description="Rows of this condition's decoding batches, in place of transformers.batch_width."
    )
    shards: Positive | None = Field(None, description="Jobs that share this condition, in place of evaluation.shards.")
    models: Keys | None = Field(None, description="The models it is run for; null is all.")
    benchmarks: Keys | None = Field(None, description="The benchmarks it is run on; null is all.")

    @property
    def layout(self) -> dict[str, Any]:
        """What a repetition changes on purpose, and should change nothing: part of its identity, and of no other condition's."""
        if self.repeats is None:
            return {}
        return self.model_dump(include={"repeats", "batch_width", "shards"}, exclude_none=True)


class Transitions(Strict):
    """Where answer transitions are counted (table native-accuracy)."""

    model: Key = Field(description="The model.")
    benchmark: Key = Field(description="The benchmark.")


class Overview(Strict):
    """Figure overview."""

    models: Keys = Field(min_length=1, description="The models that it shows, a panel each.")


class Evaluation(Strict):
    """Continuous evaluation."""

    samples: Positive = Field(4, description="Trajectories of a session.")
    seed: Text = Field("evaluation", description="The study's name; enters every response's seed.")
    engine: EngineName = Field("transformers", description="The engine that generates responses.")
    engine_changes: dict[Key, dict[Key, EngineName]] = Field(
        default_factory=dict,
        description="By model and benchmark: the engine of that whole comparison, all conditions, in place of `engine`.",
    )
    allow_mixed_engines: bool = Field(
        False,
        description="Whether the conditions of a model and benchmark may come from unequal engines, versions, attention paths, "
        "precisions or devices; the tables then say so.",
    )
    shards: Positive = Field(description="How many jobs share one condition. Changes no result.")


class TransformersEngine(Strict):
    """The reference engine."""

    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="Where it computes; auto takes a GPU if there is one."
    )
    attention: Literal["auto", "sdpa", "eager", "flash_attention_2"] = Field(
        "sdpa",
        description="Native attention's implementation; auto takes FlashAttention2 where it is installed and the model "
        "works in bfloat16 on a GPU, else sdpa. Rows record what it was.",
    )
    batch_width: Positive = Field(
        description="Rows of a decoding batch, always all computed: a row never depends on its neighbours."
    )
    prefill_width: Positive = Field(
        1,
        description="Prompts that are processed together, padded to whole blocks; 1 pads nothing and suits long ones.",
    )
    prefill_chunk: Positive = Field(
        8192,
        multiple_of=64,  # Gated DeltaNet's own blocks
        description="Tokens of a prompt that are processed at once; bounds the memory of long conversations.",
    )
    cache_block: Positive = Field(
        multiple_of=32,  # partial vectors would make sums depend on how long a neighbour's cache is
        description="The cache grows and is read in whole blocks of this many positions.",
    )


class Hub(Strict):
    """Models and data sets from the hub: one cache for all runs, filled by `fetch` and by nothing else."""

    cache: str = Field("cache", description="The folder that holds them, shared by runs; compute nodes must see it.")
    lock: str = Field(
        "revisions.lock", description="The file that records which commits were fetched; later fetches must match it."
    )


class SGLangEngine(Strict):
    """SGLang's server, which every job of rollouts starts for itself."""

    environment: str = Field(".venv-sglang", description="The folder of the server's own Python environment.")
    version: str = Field("0.5.23", description="The SGLang that must be in it; enters every response key.")
    device: Literal["cuda", "cpu"] = Field("cuda", description="Where it computes.")
    attention: Literal["fa3", "flashinfer", "triton", "torch_native"] = Field(
        "fa3", description="Attention backend; one with a deterministic mode. On a CPU: torch_native."
    )
    tensor_parallel: Positive = Field(1, description="GPUs that share the model.")
    memory_fraction: Share | None = Field(
        None, description="Share of GPU memory for weights and cache; null leaves it to SGLang."
    )
    cache_tokens: Positive | None = Field(
        None, description="Size of the key/value cache in tokens; null leaves it to SGLang."
    )
    concurrency: Positive = Field(256, description="Requests that a job has under way. Changes no result.")
    start_seconds: float = Field(3600, gt=0, description="How long a server may take to load.")
    stall_seconds: float = Field(
        300, gt=0, description="How long a server may give no sign of life before it is started again."
    )
    arguments: Texts = Field((), description="Further arguments of `sglang.launch_server`.")


class Config(Strict):
    """A run: the paper's settings, changed by an overlay and by the command line."""

    run: Key = Field(description="The run's name; its files lie in <results>/<run>.")
    results: Text = Field("results", description="The folder that holds all runs.")
    hub: Hub = Field(default_factory=Hub, description="Models and data sets from the hub.")
    reuse: Texts = Field(
        (), description="Runs, by name or folder, whose finished work is taken where it is the same as this run's."
    )
    expensive: bool = Field(True, description="Whether `make reproduce` asks for GO=1 before it starts this run.")
    note: str | None = Field(None, description="A sentence that stands under every table of this run.")
    models: dict[Key, Model] = Field(min_length=1, description="The backbones.")
    prompts: dict[Key, str] = Field(description="User messages; {problem} is replaced by the problem's text.")
    training_pool: TrainingPool = Field(description="The training problems.")
    benchmarks: dict[Key, Benchmark] = Field(min_length=1, description="The evaluation sets.")
    rollouts: Rollouts = Field(description="Training responses.")
    sessions: Sessions = Field(default_factory=Sessions, description="Orders of sessions.")
    controllers: dict[Key, Controller] = Field(description="What is trained.")
    training: Training = Field(description="Settings that all controllers share.")
    conditions: dict[Key, Condition] = Field(min_length=1, description="What is evaluated.")
    evaluation: Evaluation = Field(description="Continuous evaluation.")
    transitions: Transitions = Field(description="Where answer transitions are counted.")
    overview: Overview = Field(description="Figure overview.")
    transformers: TransformersEngine = Field(description="The Transformers engine.")
    sglang: SGLangEngine = Field(default_factory=SGLangEngine, description="The SGLang engine.")
    expected_seconds: dict[str, float] = Field(
        default_factory=dict, description="About how long a job of each rule takes, for the ETA only."
    )

    @model_validator(mode="after")
    def _names_exist(self) -> Self:
        def known(where: str, name: str | None, among: dict, what: str) -> None:
            if name is not None and name not in among:
                raise ValueError(
                    f"{where} names the {what} '{name}', which is not configured (there are: {', '.join(among)})"
                )

        for key, model in self.models.items():
            for benchmark in model.evaluation_changes:
                known(f"models.{key}.evaluation_changes", benchmark, self.benchmarks, "benchmark")
        for key, item in self.benchmarks.items():
            known(f"benchmarks.{key}.prompt", item.prompt, self.prompts, "prompt")
        for key, prompt in self.prompts.items():
            if prompt.count("{problem}") != 1:
                raise ValueError(f"prompts.{key} must hold {{problem}} exactly once")
        pool = self.training_pool
        known("training_pool.prompt", pool.prompt, self.prompts, "prompt")
        for name in pool.exclude_benchmarks:
            known("training_pool.exclude_benchmarks", name, self.benchmarks, "benchmark")
        for model_key, names in pool.exclude_more.items():
            known("training_pool.exclude_more", model_key, self.models, "model")
            for name in names:
                known(f"training_pool.exclude_more.{model_key}", name, self.benchmarks, "benchmark")
        for name in self.overview.models:
            known("overview.models", name, self.models, "model")
        known("transitions.model", self.transitions.model, self.models, "model")
        known("transitions.benchmark", self.transitions.benchmark, self.benchmarks, "benchmark")
        for model_key, engines in self.evaluation.engine_changes.items():
            known("evaluation.engine_changes", model_key, self.models, "model")
            for name in engines:
                known(f"evaluation.engine_changes.{model_key}", name, self.benchmarks, "benchmark")
        for key, controller in self.controllers.items():
            for name in controller.models or ():
                known(f"controllers.{key}.models", name, self.models, "model")
            layers = controller.controlled_layers
            if len(set(layers)) != len(layers):
                raise ValueError(f"controllers.{key}.layers lists a layer twice: {list(layers)}")
        for key, condition in self.conditions.items():
            where = f"conditions.{key}"
            known(f"{where}.controller", condition.controller, self.controllers, "controller")
            known(f"{where}.first_turn", condition.first_turn, self.conditions, "condition")
            known(f"{where}.repeats", condition.repeats, self.conditions, "condition")
            for name in condition.models or ():
                known(f"{where}.models", name, self.models, "model")
            for name in condition.benchmarks or ():
                known(f"{where}.benchmarks", name, self.benchmarks, "benchmark")
            self._check_condition(key, condition)
        return self

    def _check_condition(self, key: str, condition: Condition) -> None:
        if condition.repeats is not None:
            self._check_repetition(key, condition, condition.repeats)
        if condition.turns == 1 and (condition.controller or condition.first_turn):
            raise ValueError(f"conditions.{key} has one turn, so it can have no controller and reuse no first turn")
        if condition.first_turn:
            source = self.conditions[condition.first_turn]
            if source.turns != 1:
                raise ValueError(
                    f"conditions.{key}.first_turn must name a condition of one turn, not '{condition.first_turn}'"
                )
            for model, benchmark in self.evaluated(key):
                if (model, benchmark) not in self.evaluated(condition.first_turn):
                    raise ValueError(
                        f"conditions.{key} reuses the first turns of '{condition.first_turn}', which is not run for "
                        f"{model} on {benchmark}"
                    )
        if condition.controller and self.controllers[condition.controller].kind == "bank_free":
            raise ValueError(
                f"conditions.{key} names the controller '{condition.controller}' of kind 'bank_free', which the study with a "
                "shared T1 history evaluates"
            )
        if condition.controller and condition.first_turn and self.controllers[condition.controller].adapts:
            raise ValueError(
                f"conditions.{key} cannot reuse the first turns of '{condition.first_turn}': the adapter of "
                f"'{condition.controller}' acts at T1 too"
            )
        for model, benchmark in self.evaluated(key) if condition.controller else ():
            if self.engine_for(model, benchmark) != "transformers":
                raise ValueError(
                    f"conditions.{key} needs the Transformers engine, and evaluation gives {model} on {benchmark} to "
                    f"'{self.engine_for(model, benchmark)}': a whole comparison runs on one engine"
                )
        if condition.controller:
            trained = self.controllers[condition.controller].models
            for model, _ in self.evaluated(key):
                if trained is not None and model not in trained:
                    raise ValueError(
                        f"conditions.{key} needs the controller '{condition.controller}' of {model}, which is not trained"
                    )

    def _check_repetition(self, key: str, condition: Condition, repeated: str) -> None:
        original = self.conditions[repeated]
        if (condition.turns, condition.first_turn) != (original.turns, original.first_turn) or repeated == key:
            raise ValueError(f"conditions.{key} must have the turns and first_turn of '{repeated}', which it repeats")
        if condition.controller != original.controller and condition.variant != "zero":
            raise ValueError(
                f"conditions.{key} repeats '{repeated}' with another controller; only the variant zero changes nothing"
            )
        for place in self.evaluated(key):
            if place not in self.evaluated(repeated):
                raise ValueError(
                    f"conditions.{key} repeats '{repeated}', which is not run for {place[0]} on {place[1]}"
                )

    def engine_for(self, model: str, benchmark: str) -> EngineName:
        """The engine of all conditions of a model on a benchmark."""
        return self.evaluation.engine_changes.get(model, {}).get(benchmark, self.evaluation.engine)

    def reads_bank(self, condition: str) -> bool:
        """Whether a condition's controller reads a bank."""
        controller = self.conditions[condition].controller
        return controller is not None and self.controllers[controller].reads

    def shards_of(self, condition: str) -> int:
        """How many jobs share a condition."""
        return self.conditions[condition].shards or self.evaluation.shards

    def evaluated(self, condition: str) -> list[tuple[str, str]]:
        """The (model, benchmark) pairs that a condition is run for."""
        settings = self.conditions[condition]
        return [
            (model, benchmark)
            for model in self.models
            for benchmark in self.benchmarks
            if (settings.models is None or model in settings.models)
            and (settings.benchmarks is None or benchmark in settings.benchmarks)
        ]

    def benchmarks_of(self, model: str) -> list[str]:
        """The benchmarks that a model answers."""
        asked = {pair for condition in self.conditions for pair in self.evaluated(condition)}
        return [benchmark for benchmark in self.benchmarks if (model, benchmark) in asked]

    def gpus_for(self, engine: EngineName) -> int:
        """How many GPUs a job of an engine may use."""
        if engine == "sglang":
            return self.sglang.tensor_parallel if self.sglang.device == "cuda" else 0
        return 0 if self.transformers.device == "cpu" else 1

    def rollout_engine(self, model: str) -> EngineName:
        """The engine of a model's training responses."""
        return self.models[model].rollout_engine or self.rollouts.engine

    def trained(self, controller: str) -> list[str]:
        """The models that a controller is trained for."""
        models = self.controllers[controller].models
        return [model for model in self.models if models is None or model in models]
