# Continuous evaluation: shards generate a condition's responses, the seal gathers.
localrules:
    evaluation,


rule evaluation:
    input:
        all_of("evaluation"),


rule evaluation_shard:
    input:
        unpack(made_from("responses")),
        model=weights_of("responses"),
        preflight=paths.preflight("{model}"),
        limits=paths.preflight_limits("{model}", "{benchmark}"),
    output:
        marker_of("responses"),
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
        **asked("responses"),
    params:
        run=run_folder,
        settings=settings_of("responses"),
    shell:
        "stair evaluate --run {params.run} --model {wildcards.model} --benchmark {wildcards.benchmark}"
        " --condition {wildcards.condition} --shard {wildcards.shard} --of {wildcards.of}"
        " --threads {threads} > {log} 2>&1"


rule seal_evaluation:
    input:
        unpack(made_from("responses")),
        shards=shards_of("responses"),
    output:
        files_of("responses"),
    log:
        str(paths.log("evaluation", "{model}", "{benchmark}", "{condition}-seal")),
    benchmark:
        str(paths.timing("seal_evaluation", "{model}", "{benchmark}", "{condition}"))
    conda:
        ENVIRONMENT
    resources:
        **asked("responses", seals=True),
    params:
        run=run_folder,
        settings=settings_of("responses"),
    shell:
        "stair evaluate --run {params.run} --model {wildcards.model} --benchmark {wildcards.benchmark}"
        " --condition {wildcards.condition} --seal > {log} 2>&1"


rule response_card:
    input:
        unpack(made_from("response_card")),
    output:
        files_of("response_card"),
    log:
        str(paths.log("evaluation", "{model}", "card")),
    benchmark:
        str(paths.timing("response_card", "{model}"))
    conda:
        ENVIRONMENT
    resources:
        **asked("response_card"),
    params:
        run=run_folder,
        settings=settings_of("response_card"),
    shell:
        "stair evaluate --run {params.run} --model {wildcards.model} --card > {log} 2>&1"
