# The reproduction's graph. `make reproduce` runs it; `snakemake <stage>` runs one stage; `snakemake -n` lists the jobs.
# The configuration is config.yaml, an overlay from workflow/runs/ and the command line, resolved once (stair.config).
from pathlib import Path

from snakemake.utils import min_version

from stair.workflow.driver_lease import release_run
from stair.workflow.driven_run import open_run

min_version("9.27")


configfile: f"{workflow.basedir}/config.yaml"


run = open_run(workflow)


include: "workflow/rules/common.smk"


# One file for each stage. They share the helpers above.
for stage in sorted(Path(workflow.basedir, "workflow", "rules").glob("*.smk")):
    if stage.name != "common.smk":

        include: str(stage)


onstart:
    run.begin()


onsuccess:
    release_run()


onerror:
    release_run()


rule all:
    default_target: True
    input:
        # Every stage, not only the last: a deleted intermediate output is made again, and then its dependents.
        all_of(),


localrules:
    all,
