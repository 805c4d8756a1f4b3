# Training responses: shards generate, the seal gathers.
localrules:
    rollouts,


rule rollouts:
    input:
        all_of("rollouts"),


rule rollout_shard:
    input:
        unpack(made_from("rollouts")),
        model=weights_of("rollouts"),
        preflight=paths.preflight("{model}"),
        limits=paths.preflight_limits("{model}", "training_pool"),
    output:
        marker_of("rollouts"),
    log:
        str(paths.log("rollouts", "{model}", "shard-{shard}-of-{of}")),
    benchmark:
        str(paths.timing("rollout_shard", "{model}", "{shard}-of-{of}"))
    priority: 2
    conda:
        ENVIRONMENT
    resources:
        **asked("rollouts"),
    params:
        run=run_folder,
        settings=settings_of("rollouts"),
    shell:
        "stair rollouts --run {params.run} --model {wildcards.model} --shard {wildcards.shard} --of {wildcards.of}"
        " --threads {threads} > {log} 2>&1"


rule seal_rollouts:
    input:
        unpack(made_from("rollouts")),
        shards=shards_of("rollouts"),
    output:
        files_of("rollouts"),
    log:
        str(paths.log("rollouts", "{model}", "seal")),
    benchmark:
        str(paths.timing("seal_rollouts", "{model}"))
    conda:
        ENVIRONMENT
    resources:
        **asked("rollouts", seals=True),
    params:
        run=run_folder,
        settings=settings_of("rollouts"),
    shell:
        "stair rollouts --run {params.run} --model {wildcards.model} --seal > {log} 2>&1"


rule data_card:
    input:
        unpack(made_from("data_card")),
    output:
        files_of("data_card"),
    log:
        str(paths.log("rollouts", "{model}", "card")),
    benchmark:
        str(paths.timing("data_card", "{model}"))
    conda:
        ENVIRONMENT
    resources:
        **asked("data_card"),
    params:
        run=run_folder,
        settings=settings_of("data_card"),
    shell:
        "stair rollouts --run {params.run} --model {wildcards.model} --card > {log} 2>&1"
