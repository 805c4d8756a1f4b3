# Continuous evaluation: shards generate a condition's responses, the seal gathers.
def evaluation_shards(wildcards):
    """What says that each shard has ended."""
    of = cfg.evaluation.shards
    place = ("evaluation", wildcards.model, wildcards.benchmark, wildcards.condition)
    return [paths.shard(str(shard), str(of), *place) for shard in range(of)]


def first_turns(wildcards):
    """The saved T1 responses that a condition reuses."""
    source = cfg.conditions[wildcards.condition].first_turn
    return (
        paths.responses(wildcards.model, wildcards.benchmark, source) if source else []
    )


def controller_weights(wildcards):
    """The controller that a condition reads its bank with."""
    controller = cfg.conditions[wildcards.condition].controller
    return paths.weights(wildcards.model, controller) if controller else []


rule evaluation:
    input:
        evaluated(paths.responses),


rule evaluation_shard:
    input:
        model=model_files,
        benchmark=paths.benchmark("{benchmark}"),
        sessions=paths.evaluation_sessions("{benchmark}"),
        first_turns=first_turns,
        controller=controller_weights,
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
    params:
        settings=evaluation_settings,
    shell:
        "stair evaluate --run {RUN} --model {wildcards.model} --benchmark {wildcards.benchmark}"
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
    params:
        settings=evaluation_settings,
    shell:
        "stair evaluate --run {RUN} --model {wildcards.model} --benchmark {wildcards.benchmark}"
        " --condition {wildcards.condition} --seal > {log} 2>&1"
