# Helpers of the rules. stair/graph/outputs.py states the lineage, settings and files of each output, for the rules and for
# `stair verify`, `why` and `restore`. The functions here pass them to Snakemake.
import sys
from pathlib import Path

from stair.config.replay_analysis import REPLAY_PARTS
from stair.graph import job_inputs
from stair.graph.outputs import OUTPUTS

cfg, paths = run.config, run.paths
RUN = str(paths.folder)
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


# Each takes the name of an output in the table and returns one part of its rule.


def files_of(name, **fixed):
    """The pattern of an output's files."""
    return [str(path) for path in OUTPUTS[name].pattern(run, **fixed)]


def names_of(name):
    """A pattern of the names of an output's jobs, for outputs with one wildcard."""
    return "|".join(re.escape(job) for (job,) in OUTPUTS[name].jobs(run)) or "none"


def made_from(name):
    """The files that a job is made from, by the names of their groups; to be unpacked."""
    output = OUTPUTS[name]
    return lambda wildcards: job_inputs.inputs(run, output, *output.job(wildcards))


def settings_of(name):
    """The digest of what a job depends on in the configuration; a change of it runs the job again."""
    output = OUTPUTS[name]
    return lambda wildcards: output.settings_digest(run, *output.job(wildcards))


def weights_of(name):
    """The files of the model that a job uses."""
    output = OUTPUTS[name]
    return lambda wildcards: job_inputs.weights(run, output, *output.job(wildcards))


def preflight_of(name, prompts=None):
    """The preflight results of the model that a job uses, and of a data set's prompts."""
    output = OUTPUTS[name]
    return lambda wildcards: job_inputs.preflight_results(
        run, output, *output.job(wildcards), prompts=prompts
    )


def marker_of(name):
    """The pattern of the completion markers of an output's shards."""
    return str(paths.shard("{shard}", "{of}", *OUTPUTS[name].work.split("/")))


def shards_of(name):
    """The completion markers of the shards that a job seals."""
    output = OUTPUTS[name]
    return lambda wildcards: job_inputs.markers(run, output, *output.job(wildcards))


def all_of(*targets):
    """The files that targets ask for; without a name, those of every target."""
    return job_inputs.target_files(run, *targets)


def asked(name, seals=False):
    """What a job asks a scheduler for; nothing here makes a job run again."""
    output = OUTPUTS[name]

    def ask(key):
        return lambda wildcards, attempt: run.asked(
            output, *output.job(wildcards), seals=seals, attempt=attempt
        )[key]

    return {key: ask(key) for key in run.ASKED}


def training_workers():
    """What starts several processes of one command, each with a GPU of its own; nothing for one."""
    count = cfg.training.workers
    if count == 1:
        return ""
    # The processes find each other, so they run here and not in the warm process.
    torchrun = "torchrun --standalone --no-python"
    return f"env -u STAIR_WARM {torchrun} --nproc-per-node {count} -- "


def controllers_of(*kinds):
    """A pattern of the controllers of these kinds."""
    keys = [re.escape(key) for key, c in cfg.controllers.items() if c.kind in kinds]
    return "|".join(keys) or "none"
