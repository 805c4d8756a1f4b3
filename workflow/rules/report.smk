# The run in one file: versions, hardware, seeds, revisions, costs, and every output with its checksum. And the run on one page: its
# outcome first, then scope, cost, tables and figures.
rule provenance:
    input:
        inputs.results,
    output:
        paths.provenance,
    log:
        paths.log("provenance", "all"),
    params:
        settings=settings_of("provenance"),
    shell:
        job("provenance")


rule report:
    input:
        unpack(inputs.report),
    output:
        paths.report,
    log:
        paths.log("report", "all"),
    params:
        settings=settings_of("report"),
    shell:
        job("report")
