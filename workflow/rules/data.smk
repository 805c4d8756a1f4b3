# Cleaned benchmarks and training pools, and the report on the cleaning.
localrules:
    data,


rule data:
    input:
        all_of("data"),


rule raw:
    output:
        str(paths.raw("{name}", ".{suffix}")),
    log:
        str(paths.log("raw", "{name}-{suffix}")),
    benchmark:
        str(paths.timing("raw", "{name}-{suffix}"))
    wildcard_constraints:
        suffix="parquet|jsonl|csv",
    conda:
        ENVIRONMENT
    resources:
        **asked("raw"),
    params:
        run=run_folder,
        settings=settings_of("raw"),
    shell:
        "stair raw --run {params.run} --name {wildcards.name} > {log} 2>&1"


rule benchmark:
    input:
        unpack(made_from("benchmark")),
    output:
        files_of("benchmark"),
    log:
        str(paths.log("data", "benchmark-{benchmark}")),
    benchmark:
        str(paths.timing("benchmark", "{benchmark}"))
    conda:
        ENVIRONMENT
    resources:
        **asked("benchmark"),
    params:
        run=run_folder,
        settings=settings_of("benchmark"),
    shell:
        "stair data --run {params.run} --benchmark {wildcards.benchmark} > {log} 2>&1"


rule training_pool:
    input:
        unpack(made_from("training_pool")),
    output:
        files_of("training_pool"),
    log:
        str(paths.log("data", "training-{model}")),
    benchmark:
        str(paths.timing("training_pool", "{model}"))
    conda:
        ENVIRONMENT
    resources:
        **asked("training_pool"),
    params:
        run=run_folder,
        settings=settings_of("training_pool"),
    shell:
        "stair data --run {params.run} --model {wildcards.model} > {log} 2>&1"


rule data_report:
    input:
        unpack(made_from("data_report")),
    output:
        files_of("data_report"),
    log:
        str(paths.log("data", "report")),
    benchmark:
        str(paths.timing("data_report"))
    conda:
        ENVIRONMENT
    resources:
        **asked("data_report"),
    params:
        run=run_folder,
        settings=settings_of("data_report"),
    shell:
        "stair data --run {params.run} --report > {log} 2>&1"
