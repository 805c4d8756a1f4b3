# Benchmarks and training pools, cleaned.
rule data:
    input:
        [paths.benchmark(benchmark) for benchmark in cfg.benchmarks],
        of_each_model(paths.training_pool),


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
    params:
        run=run_folder,
        settings=raw_settings,
    shell:
        "stair raw --run {params.run} --name {wildcards.name} > {log} 2>&1"


rule benchmark:
    input:
        dataset_file,
    output:
        str(paths.benchmark("{benchmark}")),
    log:
        str(paths.log("data", "benchmark-{benchmark}")),
    benchmark:
        str(paths.timing("benchmark", "{benchmark}"))
    conda:
        ENVIRONMENT
    params:
        run=run_folder,
        settings=benchmark_settings,
    shell:
        "stair data --run {params.run} --benchmark {wildcards.benchmark} > {log} 2>&1"


rule training_pool:
    input:
        source=paths.dataset_file(cfg, "training_pool"),
        excluded=excluded,
    output:
        str(paths.training_pool("{model}")),
    log:
        str(paths.log("data", "training-{model}")),
    benchmark:
        str(paths.timing("training_pool", "{model}"))
    conda:
        ENVIRONMENT
    params:
        run=run_folder,
        settings=pool_settings,
    shell:
        "stair data --run {params.run} --model {wildcards.model} > {log} 2>&1"
