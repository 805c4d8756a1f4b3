# The reproduction's graph. `make reproduce` runs it; `snakemake <stage>` runs one stage; `snakemake -n` says what is to do.
# The configuration is config.yaml, an overlay from workflow/runs/ and the command line, resolved once (stair.config).
from snakemake.utils import min_version

from stair.workflow.lock import release_run
from stair.workflow.run import open_run

min_version("9.27")


configfile: f"{workflow.basedir}/config.yaml"


run = open_run(workflow)


include: "workflow/rules/common.smk"
include: "workflow/rules/fetch.smk"
include: "workflow/rules/backbones.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/preflight.smk"
include: "workflow/rules/rollouts.smk"
include: "workflow/rules/sessions.smk"
include: "workflow/rules/training.smk"
include: "workflow/rules/evaluation.smk"
include: "workflow/rules/checks.smk"
include: "workflow/rules/scores.smk"
include: "workflow/rules/tables.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/provenance.smk"


onstart:
    run.begin()


onsuccess:
    release_run()


onerror:
    release_run()


rule all:
    default_target: True
    input:
        # Every stage, not only the last: a deleted output in the middle is made again, and what depends on it after it.
        rules.data.input,
        rules.preflight.input,
        rules.rollouts.input,
        rules.sessions.input,
        rules.training.input,
        rules.evaluation.input,
        rules.scores.input,
        rules.check.output,
        rules.tables.input,
        rules.figures.input,
        rules.provenance.output,


localrules:
    all,
    fetch,
    data,
    preflight,
    rollouts,
    sessions,
    training,
    evaluation,
    scores,
    tables,
    figures,
