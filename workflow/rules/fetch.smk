# Weights and data sets from the hub, on the machine that drives the workflow. Nothing else uses the network.
from stair.hub.revisions import hub_sources

HUB = list(dict.fromkeys(str(source.mark) for source in hub_sources(cfg, paths)))
NOT_FETCHED = [mark for mark in HUB if not Path(mark).exists()]


localrules:
    fetch,


# Asked for by name it looks at what lies in the cache, too, and fetches again what is gone.
rule fetch:
    input:
        HUB,
    log:
        str(paths.log("fetched")),
    conda:
        ENVIRONMENT
    shell:
        f"stair fetch --run {RUN} 2>&1 | tee {{log}}"


if NOT_FETCHED:

    localrules:
        fetch_hub,

    # The marks alone are outputs: what lies beside them must outlive an attempt that broke off. Only those that are not there,
    # for a job's outputs are removed before it starts. No params: the cache is shared by runs, and a mark's path says which
    # revision was asked for.
    rule fetch_hub:
        output:
            NOT_FETCHED,
        log:
            str(paths.log("fetch")),
        conda:
            ENVIRONMENT
        shell:
            f"stair fetch --run {RUN} 2>&1 | tee {{log}}"
