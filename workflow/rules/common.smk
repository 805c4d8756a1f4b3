# Helpers of the rules. Paths come from stair/config/paths.py, input functions from stair/pipeline/inputs.py, settings from the
# stages and the functions of the jobs from stair/pipeline/jobs.py, resources other than GPUs from the profiles.
#
# A job runs again if one of its inputs is newer or its params have changed (`rerun-triggers` in profiles/default). Params are the
# digest of the settings: the configuration keys that the job uses, or all keys and the code where it takes seconds on a CPU.
# To see what a change reruns: `snakemake -n --config run=tiny "evaluation={seed: another}"`. docs/extend.md shows how to add a
# table or a stage.
import re
import sys
from pathlib import Path
from shlex import quote

from stair.config.paths import RunPaths
from stair.config.replay import REPLAY_PARTS
from stair.core import SECTIONS, SHARED_T1
from stair.records.interruption import PARENT
from stair.records.keys import digest_of
from stair.paper.exhibits import FIGURE_SUFFIXES, TABLE_SUFFIXES, exhibits
from stair.pipeline.jobs import JOBS, gpus_of
from stair.pipeline.jobs import settings_of as settings_of_job
from stair.pipeline.inputs import RuleInputs

cfg = run.config
paths = RunPaths(Path())
inputs = RuleInputs(cfg, paths)
MODELS, BENCHMARKS = list(cfg.models), list(cfg.benchmarks)

# Jobs find `stair` beside the interpreter that runs Snakemake, whatever the shell's PATH says. The command takes the shell's place,
# so that a signal to the job (a cluster's warning, a stop) reaches it, and it ends with Snakemake.
shell.prefix(
    f"set -euo pipefail; export PATH={quote(str(Path(sys.executable).parent))}:$PATH {PARENT}=$PPID; exec "
)


def one_of(names):
    """A pattern of names, for a wildcard."""
    return "|".join(map(re.escape, names)) or "none"


def controllers_of(*kinds):
    """A pattern of the controllers of these kinds."""
    return one_of(key for key, item in cfg.controllers.items() if item.kind in kinds)


def settings_of(rule):
    """The digest of the settings of a rule's job: a changed setting runs the job again."""
    return lambda wildcards: digest_of(
        settings_of_job(cfg, rule, dict(wildcards.items()))
    )


def job(rule, *more):
    """The shell line of a rule with outputs: its row of stair/pipeline/jobs.py does the work."""
    row = JOBS[rule]
    wildcards = [*row.names, *more, *(("shard", "of") if row.is_shard else ())]
    words = [f"{name}={{wildcards.{name}}}" for name in wildcards]
    files = "--inputs {input:q}" + ("" if row.is_shard else " --outputs {output:q}")
    return f"stair job {' '.join(['{rule}', *words])} --threads {{threads}} {files} > {{log:q}} 2>&1"


def gpus(rule):
    """The GPUs of a rule's job. Their number never makes a job run again."""
    return lambda wildcards: gpus_of(cfg, rule, dict(wildcards.items()))


def marker(*work):
    """The completion marker of a shard. Snakemake deletes it when the shards are sealed."""
    return temp(paths.shard("{shard}", "{of}", *work))


def every(pattern, **names):
    """The files of a pattern for all names."""
    return expand(str(pattern), **names)


wildcard_constraints:
    model=one_of(MODELS),
    benchmark=one_of(BENCHMARKS),
    controller=one_of(cfg.controllers),
    condition=one_of(cfg.every_condition),
    part=one_of(REPLAY_PARTS),
    shard=r"\d+",
    of=r"\d+",
