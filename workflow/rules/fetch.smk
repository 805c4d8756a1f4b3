# Weights and data sets from the hub, on the machine that drives the workflow. Nothing else uses the network.
rule fetch:
    input:
        HUB,


if HUB:

    localrules:
        fetch_hub,

    # The marks alone are outputs: what lies beside them must outlive an attempt that broke off. No params: the cache is
    # shared by runs, and a mark's path says which revision was asked for.
    rule fetch_hub:
        output:
            HUB,
        log:
            str(paths.log("fetch")),
        conda:
            ENVIRONMENT
        shell:
            f"stair fetch --run {RUN} 2>&1 | tee {{log}}"
