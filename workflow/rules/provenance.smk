# The run in one file: versions, hardware, seeds, revisions, costs, and every output with its checksum.
rule provenance:
    input:
        tables=[paths.table(name) for name in TABLES],
        figures=[paths.figure(name, ".csv") for name in (*FIGURES, *DRAWN_CURVES)],
    output:
        str(paths.provenance),
    log:
        str(paths.log("provenance", "all")),
    conda:
        ENVIRONMENT
    params:
        run=run_folder,
        settings=digests.digest(digests.provenance(cfg)),
    shell:
        "stair provenance --run {params.run} > {log} 2>&1"
