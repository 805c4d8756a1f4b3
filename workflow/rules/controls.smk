# The study with a shared T1 history: the commands and the files of continuous evaluation, with conditions of its own.


rule controls:
    input:
        inputs.target("controls"),


rule controls_shard:
    input:
        benchmark=paths.benchmark("{benchmark}"),
        sessions=paths.evaluation_sessions("{benchmark}"),
        first_turns=inputs.shared_t1.first_turns,
        controller=inputs.shared_t1.controller,
        preflight=paths.preflight("{model}"),
    output:
        marker("controls", "{model}", "{benchmark}", "{condition}"),
    log:
        paths.log("controls", "{model}", "{benchmark}", "{condition}-{shard}-of-{of}"),
    wildcard_constraints:
        condition=one_of(inputs.shared_t1.config.conditions),
    resources:
        gpu=gpus("controls_shard"),
    params:
        settings=settings_of("controls_shard"),
    shell:
        job("controls_shard")


rule seal_controls:
    input:
        benchmark=paths.benchmark("{benchmark}"),
        sessions=paths.evaluation_sessions("{benchmark}"),
        first_turns=inputs.shared_t1.first_turns,
        controller=inputs.shared_t1.controller,
        preflight=paths.preflight("{model}"),
        shards=inputs.shared_t1.shards,
    output:
        paths.shared_t1.responses("{model}", "{benchmark}", "{condition}"),
    log:
        paths.log("controls", "{model}", "{benchmark}", "{condition}-seal"),
    wildcard_constraints:
        condition=one_of(inputs.shared_t1.config.conditions),
    params:
        settings=settings_of("seal_controls"),
    shell:
        job("seal_controls")
