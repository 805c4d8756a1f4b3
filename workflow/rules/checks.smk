# The protocol's invariants on the data at hand. Tables wait for them.
rule check:
    input:
        pools=of_each_trained_model(paths.training_pool),
        rollouts=of_each_trained_model(paths.rollouts),
        training=of_each_trained_model(paths.training_sessions),
        validation=of_each_trained_model(paths.validation_sessions),
        benchmarks=[paths.benchmark(benchmark) for benchmark in cfg.benchmarks],
        sessions=[paths.evaluation_sessions(benchmark) for benchmark in cfg.benchmarks],
        responses=evaluated(paths.responses),
    output:
        str(paths.checks),
    log:
        str(paths.log("checks", "all")),
    benchmark:
        str(paths.timing("check"))
    conda:
        ENVIRONMENT
    params:
        run=run_folder,
        settings=digests.digest(digests.checks(cfg)),
    shell:
        "stair check --run {params.run} > {log} 2>&1"
