# Shards generate a condition's responses, the seal gathers, and a job on a CPU gives verdicts. A
# condition of the study with a shared T1 history is `shared_t1/NAME`; its target is `controls`.
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


# Verdicts. No rule that generates has a scored file as input.
rule scores:
    input:
        inputs.target("scores"),


rule score_condition:
    input:
        responses=inputs.answers,
        benchmark=paths.benchmark("{benchmark}"),
    output:
        paths.scored("{model}", "{benchmark}", "{study}/{condition}"),
    log:
        paths.log("scores", "{model}", "{benchmark}", "{study}", "{condition}"),
    wildcard_constraints:
        study=one_of(SECTIONS),
        condition=one_of(
            name for study in SECTIONS for name in cfg.conditions_of(study)
        ),
    params:
        settings=settings_of("score_condition"),
    shell:
        job("score_condition", "study")
