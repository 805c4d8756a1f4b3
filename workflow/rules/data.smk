# Benchmarks and training pools, cleaned.
def dataset_file(wildcards):
    """The file of a benchmark."""
    return paths.dataset_file(cfg, wildcards.benchmark)


def excluded(wildcards):
    """The benchmarks that a model must not be trained on."""
    pool = cfg.training_pool
    names = {*pool.exclude_benchmarks, *pool.exclude_more.get(wildcards.model, ())}
    return [paths.benchmark(name) for name in sorted(names)]


rule data:
    input:
        [paths.benchmark(benchmark) for benchmark in cfg.benchmarks],
        of_each_model(paths.training_pool),


rule raw:
    output:
        RUN + "/raw/{name}.{suffix,parquet|jsonl|csv}",
    log:
        str(paths.log("raw", "{name}-{suffix}")),
    params:
        settings=raw_settings,
    shell:
        "stair raw --run {RUN} --name {wildcards.name} > {log} 2>&1"


rule benchmark:
    input:
        dataset_file,
    output:
        str(paths.benchmark("{benchmark}")),
    log:
        str(paths.log("data", "benchmark-{benchmark}")),
    params:
        settings=benchmark_settings,
    shell:
        "stair data --run {RUN} --benchmark {wildcards.benchmark} > {log} 2>&1"


rule training_pool:
    input:
        source=paths.dataset_file(cfg, "training_pool"),
        excluded=excluded,
    output:
        str(paths.training_pool("{model}")),
    log:
        str(paths.log("data", "training-{model}")),
    params:
        settings=pool_settings,
    shell:
        "stair data --run {RUN} --model {wildcards.model} > {log} 2>&1"
