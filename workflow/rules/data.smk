# Cleaned benchmarks and training pools, and the report on the cleaning.
rule data:
    input:
        inputs.target("data"),


rule raw:
    output:
        paths.raw("{name}", ".{suffix}"),
    log:
        paths.log("raw", "{name}-{suffix}"),
    wildcard_constraints:
        suffix="parquet|jsonl|csv",
    params:
        settings=settings_of("raw"),
    shell:
        job("raw")


rule benchmark:
    input:
        source=inputs.benchmark_source,
    output:
        paths.benchmark("{benchmark}"),
    log:
        paths.log("data", "benchmark-{benchmark}"),
    params:
        settings=settings_of("benchmark"),
    shell:
        job("benchmark")


rule training_pool:
    input:
        source=inputs.dataset("training_pool"),
        excluded=inputs.excluded_benchmarks,
    output:
        pool=paths.training_pool("{model}"),
        cleaning=paths.cleaning("{model}"),
    log:
        paths.log("data", "training-{model}"),
    params:
        settings=settings_of("training_pool"),
    shell:
        job("training_pool")


rule data_report:
    input:
        benchmarks=every(paths.benchmark("{benchmark}"), benchmark=BENCHMARKS),
        pools=every(paths.training_pool("{model}"), model=MODELS),
        cleaning=every(paths.cleaning("{model}"), model=MODELS),
    output:
        paths.data_report(".md"),
        paths.data_report(".json"),
        paths.data_counts,
        paths.near_duplicates,
    log:
        paths.log("data", "report"),
    params:
        settings=settings_of("data_report"),
    shell:
        job("data_report")
