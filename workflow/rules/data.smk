# Benchmarks and training pools, cleaned, and the report on what that removed.
DATA_REPORT = [
    str(paths.data_report(".md")),
    str(paths.data_report(".json")),
    str(paths.data_counts),
    str(paths.near_duplicates),
]
REPORTED = all(map(restored.training_data_wanted, cfg.models))


rule data:
    input:
        [paths.benchmark(benchmark) for benchmark in cfg.benchmarks],
        of_each_trained_model(paths.training_pool),
        DATA_REPORT if REPORTED else [],


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
        source=pool_file,
        excluded=excluded,
    output:
        str(paths.training_pool("{model}")),
        str(paths.cleaning("{model}")),
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


rule data_report:
    input:
        [paths.benchmark(benchmark) for benchmark in cfg.benchmarks],
        of_each_model(paths.training_pool),
        of_each_model(paths.cleaning),
    output:
        DATA_REPORT,
    log:
        str(paths.log("data", "report")),
    benchmark:
        str(paths.timing("data_report"))
    conda:
        ENVIRONMENT
    params:
        run=run_folder,
        settings=digests.digest(digests.data_report(cfg)),
    shell:
        "stair data --run {params.run} --report > {log} 2>&1"
