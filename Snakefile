# The reproduction's graph. `make reproduce` runs it; `snakemake <stage>` runs one stage; `snakemake -n` lists the jobs.
# The configuration is config.yaml, an overlay from workflow/runs/ and the command line, resolved once (stair.config).
from snakemake.utils import min_version

from stair.cli.warm import keep_warm
from stair.pipeline.driven_run import driven_run

min_version("9.27")


run = driven_run(workflow)


# The rules' paths are relative to the run's folder, which also contains Snakemake's own records (.snakemake).
workdir: run.workdir


include: "workflow/rules/common.smk"
include: "workflow/rules/fetch.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/preflight.smk"
include: "workflow/rules/rollouts.smk"
include: "workflow/rules/sessions.smk"
include: "workflow/rules/training.smk"
include: "workflow/rules/evaluation.smk"
include: "workflow/rules/replay.smk"
include: "workflow/rules/runtime.smk"
include: "workflow/rules/checks.smk"
include: "workflow/rules/exhibits.smk"
include: "workflow/rules/comparison.smk"
include: "workflow/rules/report.smk"


onstart:
    run.begin()
    if workflow.local_exec:
        keep_warm()


rule all:
    default_target: True
    input:
        inputs.target("all"),
