# Training responses: shards generate, the seal gathers.
def rollout_shards(wildcards):
    """What says that each shard has ended."""
    of = cfg.rollouts.shards
    return [
        paths.shard(str(shard), str(of), "rollouts", wildcards.model)
        for shard in range(of)
    ]


rule rollouts:
    input:
        of_each_model(paths.rollouts),


rule rollout_shard:
    input:
        model=model_files,
        pool=paths.training_pool("{model}"),
    output:
        str(paths.shard("{shard}", "{of}", "rollouts", "{model}")),
    log:
        str(paths.log("rollouts", "{model}", "shard-{shard}-of-{of}")),
    params:
        settings=rollout_settings,
    shell:
        "stair rollouts --run {RUN} --model {wildcards.model} --shard {wildcards.shard} --of {wildcards.of}"
        " --threads {threads} > {log} 2>&1"


rule seal_rollouts:
    input:
        shards=rollout_shards,
        pool=paths.training_pool("{model}"),
    output:
        str(paths.rollouts("{model}")),
    log:
        str(paths.log("rollouts", "{model}", "seal")),
    params:
        settings=rollout_settings,
    shell:
        "stair rollouts --run {RUN} --model {wildcards.model} --seal > {log} 2>&1"
