# Four-turn sessions: for training and validation by model, for evaluation by benchmark.
rule sessions:
    input:
        of_each_trained_model(
            paths.training_sessions, paths.validation_sessions, paths.dropped_records
        ),
        [paths.evaluation_sessions(benchmark) for benchmark in cfg.benchmarks],


rule training_sessions:
    input:
        pool=paths.training_pool("{model}"),
        rollouts=paths.rollouts("{model}"),
    output:
        str(paths.training_sessions("{model}")),
        str(paths.validation_sessions("{model}")),
        str(paths.dropped_records("{model}")),
    log:
        str(paths.log("sessions", "training-{model}")),
    benchmark:
        str(paths.timing("training_sessions", "{model}"))
    conda:
        ENVIRONMENT
    params:
        run=run_folder,
        settings=digests.digest(digests.sessions(cfg)),
    shell:
        "stair sessions --run {params.run} --model {wildcards.model} > {log} 2>&1"


rule evaluation_sessions:
    input:
        paths.benchmark("{benchmark}"),
    output:
        str(paths.evaluation_sessions("{benchmark}")),
    log:
        str(paths.log("sessions", "evaluation-{benchmark}")),
    benchmark:
        str(paths.timing("evaluation_sessions", "{benchmark}"))
    conda:
        ENVIRONMENT
    params:
        run=run_folder,
        settings=digests.digest(digests.sessions(cfg)),
    shell:
        "stair sessions --run {params.run} --benchmark {wildcards.benchmark} > {log} 2>&1"
