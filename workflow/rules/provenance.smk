# The run in one file: versions, hardware, seeds, revisions, costs, and every output with its checksum.
rule provenance:
    input:
        # Every result that no other output is made from.
        unpack(made_from("provenance")),
    output:
        files_of("provenance"),
    log:
        str(paths.log("provenance", "all")),
    conda:
        ENVIRONMENT
    resources:
        **asked("provenance"),
    params:
        run=run_folder,
        settings=settings_of("provenance"),
    shell:
        "stair provenance --run {params.run} > {log} 2>&1"
