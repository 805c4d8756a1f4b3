# Continuous evaluation: shards generate a condition's responses, the seal gathers.
rule evaluation:
    input:
        evaluated(paths.responses),
        response_cards(),


rule evaluation_shard:
    input:
        model=model_files,
        benchmark=paths.benchmark("{benchmark}"),
        sessions=paths.evaluation_sessions("{benchmark}"),
        first_turns=first_turns,
        controller=controller_weights,
        preflight=paths.preflight("{model}"),
        limits=paths.preflight_limits("{model}", "{benchmark}"),
    output:
        str(
            paths.shard(
                "{shard}",
                "{of}",
                "evaluation",
                "{model}",
                "{benchmark}",
                "{condition}",
            )
        ),
    log:
        str(
            paths.log(
                "evaluation", "{model}", "{benchmark}", "{condition}-{shard}-of-{of}"
            )
        ),
    benchmark:
        str(
            paths.timing(
                "evaluation_shard",
                "{model}",
                "{benchmark}",
                "{condition}-{shard}-of-{of}",
            )
        )
    conda:
        ENVIRONMENT
    resources:
        gpu=evaluation_gpus,
    params:
        run=run_folder,
        settings=evaluation_settings,
    shell:
        "stair evaluate --run {params.run} --model {wildcards.model} --benchmark {wildcards.benchmark}"
        " --condition {wildcards.condition} --shard {wildcards.shard} --of {wildcards.of}"
        " --threads {threads} > {log} 2>&1"


rule seal_evaluation:
    input:
        shards=evaluation_shards,
        benchmark=paths.benchmark("{benchmark}"),
        sessions=paths.evaluation_sessions("{benchmark}"),
        first_turns=first_turns,
        controller=controller_weights,
    output:
        str(paths.responses("{model}", "{benchmark}", "{condition}")),
    log:
        str(paths.log("evaluation", "{model}", "{benchmark}", "{condition}-seal")),
    benchmark:
        str(paths.timing("seal_evaluation", "{model}", "{benchmark}", "{condition}"))
    conda:
        ENVIRONMENT
    params:
        run=run_folder,
        settings=evaluation_settings,
    shell:
        "stair evaluate --run {params.run} --model {wildcards.model} --benchmark {wildcards.benchmark}"
        " --condition {wildcards.condition} --seal > {log} 2>&1"


rule response_card:
    input:
        sealed_responses,
    output:
        str(paths.response_card("{model}")),
    log:
        str(paths.log("evaluation", "{model}", "card")),
    benchmark:
        str(paths.timing("response_card", "{model}"))
    conda:
        ENVIRONMENT
    params:
        run=run_folder,
        settings=response_card_settings,
    shell:
        "stair evaluate --run {params.run} --model {wildcards.model} --card > {log} 2>&1"
