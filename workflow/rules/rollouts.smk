# Training responses: shards generate, the seal gathers.
rule rollouts:
    input:
        inputs.target("rollouts"),


rule rollout_shard:
    input:
        pool=paths.training_pool("{model}"),
        preflight=paths.preflight("{model}"),
    output:
        marker("rollouts", "{model}"),
    log:
        paths.log("rollouts", "{model}", "shard-{shard}-of-{of}"),
    priority: 2
    resources:
        gpu=gpus("rollout_shard"),
    params:
        settings=settings_of("rollout_shard"),
    shell:
        job("rollout_shard")


rule seal_rollouts:
    input:
        pool=paths.training_pool("{model}"),
        preflight=paths.preflight("{model}"),
        shards=inputs.rollout_shards,
    output:
        paths.rollouts("{model}"),
    log:
        paths.log("rollouts", "{model}", "seal"),
    params:
        settings=settings_of("seal_rollouts"),
    shell:
        job("seal_rollouts")
