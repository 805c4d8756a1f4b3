# Weights and data sets from the hub, on the machine that drives the workflow. No other rule uses the network.
from stair.config.paths import input_name
from stair.models.hub import hub_sources

HUB = list(
    dict.fromkeys(str(input_name(source.mark)) for source in hub_sources(cfg, paths))
)
NOT_FETCHED = [mark for mark in HUB if not Path(mark).exists()]


localrules:
    fetch,


# As a target it also checks the files in the cache, and downloads missing ones again.
rule fetch:
    input:
        HUB,
    log:
        paths.log("fetched"),
    shell:
        "stair fetch --run . 2>&1 | tee {log:q}"


if NOT_FETCHED:

    localrules:
        fetch_hub,

    # Outputs are the marks alone, because complete files beside them must survive an interrupted attempt. Only missing marks
    # are outputs, because Snakemake removes a job's outputs before it starts. No params: runs share the cache, and a mark's
    # path contains the configured revision.
    rule fetch_hub:
        output:
            NOT_FETCHED,
        log:
            paths.log("fetch"),
        shell:
            "stair fetch --run . 2>&1 | tee {log:q}"
