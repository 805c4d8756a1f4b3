# Four-turn sessions: for training and validation by model, for evaluation by benchmark.
localrules:
    sessions,


rule sessions:
    input:
        all_of("sessions"),


rule training_sessions:
    input:
        unpack(made_from("training_sessions")),
    output:
        files_of("training_sessions"),
    log:
        str(paths.log("sessions", "training-{model}")),
    benchmark:
        str(paths.timing("training_sessions", "{model}"))
    conda:
        ENVIRONMENT
    resources:
        **asked("training_sessions"),
    params:
        run=run_folder,
        settings=settings_of("training_sessions"),
    shell:
        "stair sessions --run {params.run} --model {wildcards.model} > {log} 2>&1"


rule evaluation_sessions:
    input:
        unpack(made_from("evaluation_sessions")),
    output:
        files_of("evaluation_sessions"),
    log:
        str(paths.log("sessions", "evaluation-{benchmark}")),
    benchmark:
        str(paths.timing("evaluation_sessions", "{benchmark}"))
    conda:
        ENVIRONMENT
    resources:
        **asked("evaluation_sessions"),
    params:
        run=run_folder,
        settings=settings_of("evaluation_sessions"),
    shell:
        "stair sessions --run {params.run} --benchmark {wildcards.benchmark} > {log} 2>&1"
