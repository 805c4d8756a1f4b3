# Four-turn sessions: for training and validation by model, for evaluation by benchmark.
rule sessions:
    input:
        inputs.target("sessions"),


rule training_sessions:
    input:
        pool=paths.training_pool("{model}"),
        rollouts=paths.rollouts("{model}"),
    output:
        training=paths.training_sessions("{model}"),
        validation=paths.validation_sessions("{model}"),
        dropped=paths.dropped_records("{model}"),
    log:
        paths.log("sessions", "training-{model}"),
    params:
        settings=settings_of("training_sessions"),
    shell:
        job("training_sessions")


rule evaluation_sessions:
    input:
        benchmark=paths.benchmark("{benchmark}"),
    output:
        paths.evaluation_sessions("{benchmark}"),
    log:
        paths.log("sessions", "evaluation-{benchmark}"),
    params:
        settings=settings_of("evaluation_sessions"),
    shell:
        job("evaluation_sessions")
