# Shards generate a condition's responses, the seal gathers. A condition of the study with a shared T1 history is `shared_t1/NAME`;
# its target is `controls`.
rule evaluation:
    input:
        sorted({*inputs.target("evaluation")} - {*inputs.study(SHARED_T1)}),


rule controls:
    input:
        inputs.study(SHARED_T1),


rule evaluation_shard:
    input:
        benchmark=paths.benchmark("{benchmark}"),
        sessions=paths.evaluation_sessions("{benchmark}"),
        first_turns=inputs.first_turns,
        controller=inputs.controller,
        preflight=paths.preflight("{model}"),
    output:
        marker("evaluation", "{model}", "{benchmark}", "{condition}"),
    log:
        paths.log("evaluation", "{model}", "{benchmark}", "{condition}-{shard}-of-{of}"),
    resources:
        gpu=gpus("evaluation_shard"),
    params:
        settings=settings_of("evaluation_shard"),
    shell:
        job("evaluation_shard")


rule seal_evaluation:
    input:
        benchmark=paths.benchmark("{benchmark}"),
        sessions=paths.evaluation_sessions("{benchmark}"),
        first_turns=inputs.first_turns,
        controller=inputs.controller,
        preflight=paths.preflight("{model}"),
        shards=inputs.shards,
    output:
        paths.responses("{model}", "{benchmark}", "{condition}"),
    log:
        paths.log("evaluation", "{model}", "{benchmark}", "{condition}-seal"),
    params:
        settings=settings_of("seal_evaluation"),
    shell:
        job("seal_evaluation")
