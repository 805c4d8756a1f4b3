# Helpers of the rules: the run's folder, wildcards, and which files a job needs.
import sys
from pathlib import Path

from stair.backbones.revision import revision_files
from stair.config import params as digests
from stair.config.paths import BACKBONE_FILES
from stair.config.training import CONTROLLER_FILES
from stair.data.revisions import hub_sources
from stair.provenance.restored import Restored
from stair.provenance.sealed import shard_count

cfg, paths = run.config, run.paths
RUN = str(paths.folder)
HUB = list(dict.fromkeys(str(source.mark) for source in hub_sources(cfg, paths)))
NOT_FETCHED = [mark for mark in HUB if not Path(mark).exists()]
# What the run holds of an archive is not made again, nor is what only its making needs.
restored = Restored(cfg, paths)
# For `--sdm conda`; make builds .venv from envs/cpu.lock instead.
ENVIRONMENT = f"{workflow.basedir}/envs/pipeline.yaml"

# Jobs find `stair` beside the interpreter that runs Snakemake, whatever the shell's PATH says. Every rule's line is one command,
# which takes the shell's place, so that a signal to the job (a cluster's warning, a stop) reaches it.
shell.prefix(
    f'set -euo pipefail; export PATH="{Path(sys.executable).parent}:$PATH"; exec '
)


wildcard_constraints:
    model="|".join(map(re.escape, cfg.models)),
    benchmark="|".join(map(re.escape, cfg.benchmarks)),
    controller="|".join(map(re.escape, cfg.controllers)) or "none",
    condition="|".join(map(re.escape, cfg.conditions)),
    prompts="|".join(map(re.escape, ["training_pool", *cfg.benchmarks])),
    shard=r"\d+",
    of=r"\d+",


def run_folder(wildcards):
    """The run's folder, which every command is told."""
    return RUN


def model_files(wildcards):
    """The files of a model folder that stages depend on."""
    folder = paths.model_folder(cfg, wildcards.model)
    if cfg.models[wildcards.model].tiny is not None:
        return [folder / name for name in BACKBONE_FILES]
    if cfg.models[wildcards.model].path is not None:
        return revision_files(folder)
    return paths.model_mark(cfg, wildcards.model)


def of_each_model(path):
    """One path for each model."""
    return [path(model) for model in cfg.models]


def response_cards():
    """The cards of all models that answer a benchmark."""
    return [paths.response_card(m) for m in cfg.models if cfg.benchmarks_of(m)]


def of_each_trained_model(*kinds, models=tuple(cfg.models)):
    """Paths for each model whose training data is to be made."""
    trained = [model for model in models if restored.training_data_wanted(model)]
    return [path(model) for path in kinds for model in trained]


def evaluated(path):
    """One path for each (model, benchmark, condition) that is evaluated."""
    return [
        path(m, b, condition)
        for condition in cfg.conditions
        for m, b in cfg.evaluated(condition)
    ]


def dataset_file(wildcards):
    """The file of a benchmark."""
    if restored.has("benchmark", wildcards.benchmark):
        return []
    return source_file(wildcards.benchmark)


def source_file(name):
    """The file of a data set, or the mark that it has come from the hub."""
    dataset = cfg.training_pool if name == "training_pool" else cfg.benchmarks[name]
    if dataset.repository:
        return paths.fetched_mark(cfg, name)
    return paths.dataset_file(cfg, name)


def pool_file(wildcards):
    """The file of the training problems."""
    if restored.has("training_pool", wildcards.model):
        return []
    return source_file("training_pool")


def prompts_to_look_at(wildcards):
    """The problems that a model's prompts are made of."""
    if wildcards.prompts == "training_pool":
        return paths.training_pool(wildcards.model)
    return paths.benchmark(wildcards.prompts)


def limits_of(model):
    """What says that a model's prompts fit into its context."""
    trained = ["training_pool"] if restored.training_data_wanted(model) else []
    return [
        paths.preflight_limits(model, name)
        for name in [*trained, *cfg.benchmarks_of(model)]
    ]


def excluded(wildcards):
    """The benchmarks that a model must not be trained on."""
    names = cfg.training_pool.excluded_for(wildcards.model)
    return [paths.benchmark(name) for name in sorted(names)]


def evaluation_shards(wildcards):
    """What says that each shard has ended."""
    place = (wildcards.model, wildcards.benchmark, wildcards.condition)
    if restored.has("responses", *place):
        return []
    of = shard_count(
        paths.responses(*place),
        paths.work("evaluation", *place),
        lambda: digests.evaluation(cfg, *place),
        cfg.shards_of(wildcards.condition),
    )
    place = ("evaluation", *place)
    return [paths.shard(str(shard), str(of), *place) for shard in range(of)]


def sealed_responses(wildcards):
    """The responses of a model, of every benchmark and condition."""
    return [
        paths.responses(m, b, condition)
        for condition in cfg.conditions
        for m, b in cfg.evaluated(condition)
        if m == wildcards.model
    ]


def first_turns(wildcards):
    """The saved T1 responses that a condition reuses."""
    source = cfg.conditions[wildcards.condition].first_turn
    return (
        paths.responses(wildcards.model, wildcards.benchmark, source) if source else []
    )


def controller_weights(wildcards):
    """The controller that a condition reads its bank with."""
    controller = cfg.conditions[wildcards.condition].controller
    return (
        paths.controller_weights(cfg, wildcards.model, controller) if controller else []
    )


def training_workers():
    """What starts several processes of one command, each with a GPU of its own; nothing for one."""
    count = cfg.training.workers
    if count == 1:
        return ""
    # The processes find each other, so they run here and not in the warm process.
    torchrun = "torchrun --standalone --no-python"
    return f"env -u STAIR_WARM {torchrun} --nproc-per-node {count} -- "


def rollout_gpus(wildcards):
    """The GPUs of a shard of training responses."""
    return cfg.gpus_for(cfg.rollout_engine(wildcards.model))


def evaluation_gpus(wildcards):
    """The GPUs of a shard of an evaluation."""
    return cfg.gpus_for(cfg.engine_for(wildcards.model, wildcards.benchmark))


def training_gpus():
    """The GPUs of a training, one a worker."""
    return cfg.training.workers * cfg.gpus_for("transformers")


def controllers_of(*kinds):
    """A pattern of the controllers of these kinds."""
    return (
        "|".join(
            re.escape(key) for key, c in cfg.controllers.items() if c.kind in kinds
        )
        or "none"
    )


def controller_files(kind):
    """What training writes for a controller of this kind."""
    return [
        str(paths.controller("{model}", "{controller}") / name)
        for name in CONTROLLER_FILES[kind]
    ]


def trained_on(wildcards):
    """A controller's training data, and the files of its model: nothing of it where the controller was restored without."""
    model = wildcards.model
    data = (
        paths.training_pool,
        paths.rollouts,
        paths.training_sessions,
        paths.validation_sessions,
    )
    found = [path(model) for path in data if restored.training_data_wanted(model)]
    if restored.has("controller", model, wildcards.controller):
        return found
    files = model_files(wildcards)
    return [*(files if isinstance(files, list) else [files]), *found]


def training_curves(wildcards):
    """The curves of a model's controllers."""
    return list(paths.curves(cfg, wildcards.model).values())


def rollout_shards(wildcards):
    """What says that each shard has ended."""
    if restored.has("rollouts", wildcards.model):
        return []
    of = shard_count(
        paths.rollouts(wildcards.model),
        paths.work("rollouts", wildcards.model),
        lambda: digests.rollouts(cfg, wildcards.model),
        cfg.rollouts.shards,
    )
    return [
        paths.shard(str(shard), str(of), "rollouts", wildcards.model)
        for shard in range(of)
    ]


# The digest of what a job depends on in the configuration; a change of it runs the job again.


def backbone_settings(wildcards):
    return digests.digest(digests.backbone(cfg, wildcards.model))


def raw_settings(wildcards):
    return digests.digest(digests.raw(cfg, wildcards.name))


def benchmark_settings(wildcards):
    return digests.digest(digests.benchmark(cfg, wildcards.benchmark))


def pool_settings(wildcards):
    return digests.digest(digests.training_pool(cfg, wildcards.model))


def preflight_settings(wildcards):
    return digests.digest(digests.preflight(cfg, wildcards.model))


def limit_settings(wildcards):
    return digests.digest(
        digests.preflight_limits(cfg, wildcards.model, wildcards.prompts)
    )


def card_settings(wildcards):
    return digests.digest(digests.data_card(cfg, wildcards.model))


def response_card_settings(wildcards):
    return digests.digest(digests.response_card(cfg, wildcards.model))


def rollout_settings(wildcards):
    return digests.digest(digests.rollouts(cfg, wildcards.model))


def training_settings(wildcards):
    return digests.digest(digests.training(cfg, wildcards.model, wildcards.controller))


def evaluation_settings(wildcards):
    return digests.digest(
        digests.evaluation(
            cfg, wildcards.model, wildcards.benchmark, wildcards.condition
        )
    )


def score_settings(wildcards):
    return digests.digest(digests.scores(cfg, wildcards.benchmark))


def training_figure_settings(wildcards):
    return digests.digest(digests.training_figure(cfg, wildcards.model))
