# The protocol's invariants on the data at hand. Tables wait for them.
rule check:
    input:
        unpack(made_from("check")),
    output:
        files_of("check"),
    log:
        str(paths.log("checks", "all")),
    benchmark:
        str(paths.timing("check"))
    conda:
        ENVIRONMENT
    resources:
        **asked("check"),
    params:
        run=run_folder,
        settings=settings_of("check"),
    shell:
        "stair check --run {params.run} > {log} 2>&1"
