# Training responses: shards generate, the seal gathers.
rule rollouts:
    input:
        of_each_trained_model(paths.rollouts, paths.data_card),


rule rollout_shard:
    input:
        model=model_files,
        pool=paths.training_pool("{model}"),
        preflight=paths.preflight("{model}"),
        limits=paths.preflight_limits("{model}", "training_pool"),
    output:
        str(paths.shard("{shard}", "{of}", "rollouts", "{model}")),
    log:
        str(paths.log("rollouts", "{model}", "shard-{shard}-of-{of}")),
    benchmark:
        str(paths.timing("rollout_shard", "{model}", "{shard}-of-{of}"))
    priority: 2
    conda:
        ENVIRONMENT
    resources:
        gpu=rollout_gpus,
    params:
        run=run_folder,
        settings=rollout_settings,
    shell:
        "stair rollouts --run {params.run} --model {wildcards.model} --shard {wildcards.shard} --of {wildcards.of}"
        " --threads {threads} > {log} 2>&1"


rule seal_rollouts:
    input:
        shards=rollout_shards,
        pool=paths.training_pool("{model}"),
    output:
        str(paths.rollouts("{model}")),
    log:
        str(paths.log("rollouts", "{model}", "seal")),
    benchmark:
        str(paths.timing("seal_rollouts", "{model}"))
    conda:
        ENVIRONMENT
    params:
        run=run_folder,
        settings=rollout_settings,
    shell:
        "stair rollouts --run {params.run} --model {wildcards.model} --seal > {log} 2>&1"


rule data_card:
    input:
        pool=paths.training_pool("{model}"),
        rollouts=paths.rollouts("{model}"),
    output:
        str(paths.data_card("{model}")),
    log:
        str(paths.log("rollouts", "{model}", "card")),
    benchmark:
        str(paths.timing("data_card", "{model}"))
    conda:
        ENVIRONMENT
    params:
        run=run_folder,
        settings=card_settings,
    shell:
        "stair rollouts --run {params.run} --model {wildcards.model} --card > {log} 2>&1"
