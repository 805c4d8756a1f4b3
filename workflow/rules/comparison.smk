# The run's numbers beside the paper's, and the paper's claims as tests.
rule comparison:
    input:
        unpack(made_from("comparison")),
    output:
        files_of("comparison"),
    log:
        str(paths.log("comparison", "all")),
    benchmark:
        str(paths.timing("comparison"))
    conda:
        ENVIRONMENT
    resources:
        **asked("comparison"),
    params:
        run=run_folder,
        settings=settings_of("comparison"),
    shell:
        "stair compare --run {params.run} > {log} 2>&1"


rule claims:
    input:
        unpack(made_from("claims")),
    output:
        files_of("claims"),
    log:
        str(paths.log("claims", "all")),
    benchmark:
        str(paths.timing("claims"))
    conda:
        ENVIRONMENT
    resources:
        **asked("claims"),
    params:
        run=run_folder,
        settings=settings_of("claims"),
    shell:
        "stair claims --run {params.run} > {log} 2>&1"
