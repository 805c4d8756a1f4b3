# Crossed-history replay: a design, shards that measure its batches, the seal, which writes the index of all cells, and the
# analysis of the measurements on a CPU.
localrules:
    replay,


rule replay:
    input:
        all_of("replay"),


rule replay_design:
    input:
        unpack(made_from("replay_design")),
        model=weights_of("replay_design"),
        preflight=preflight_of("replay_design"),
    output:
        files_of("replay_design"),
    log:
        str(paths.log("replay", "{model}-design")),
    benchmark:
        str(paths.timing("replay_design", "{model}"))
    conda:
        ENVIRONMENT
    resources:
        **asked("replay_design"),
    params:
        run=run_folder,
        settings=settings_of("replay_design"),
    shell:
        "stair replay --run {params.run} --model {wildcards.model} --design > {log} 2>&1"


rule replay_shard:
    input:
        unpack(made_from("replay")),
        model=weights_of("replay"),
        preflight=paths.preflight("{model}"),
        limits=lambda wildcards: paths.preflight_limits(
            wildcards.model, cfg.replay.benchmark
        ),
    output:
        marker_of("replay"),
    log:
        str(paths.log("replay", "{model}", "{shard}-of-{of}")),
    benchmark:
        str(paths.timing("replay_shard", "{model}", "{shard}-of-{of}"))
    conda:
        ENVIRONMENT
    resources:
        **asked("replay"),
    params:
        run=run_folder,
        settings=settings_of("replay"),
    shell:
        "stair replay --run {params.run} --model {wildcards.model} --shard {wildcards.shard} --of {wildcards.of}"
        " --threads {threads} > {log} 2>&1"


rule seal_replay:
    input:
        unpack(made_from("replay")),
        shards=shards_of("replay"),
    output:
        files_of("replay"),
    log:
        str(paths.log("replay", "{model}-seal")),
    benchmark:
        str(paths.timing("seal_replay", "{model}"))
    conda:
        ENVIRONMENT
    resources:
        **asked("replay", seals=True),
    params:
        run=run_folder,
        settings=settings_of("replay"),
    shell:
        "stair replay --run {params.run} --model {wildcards.model} --seal > {log} 2>&1"


rule replay_statistics:
    input:
        unpack(made_from("replay_statistics")),
    output:
        files_of("replay_statistics"),
    log:
        str(paths.log("replay", "{model}-{part}")),
    benchmark:
        str(paths.timing("replay_statistics", "{model}", "{part}"))
    wildcard_constraints:
        part="|".join(REPLAY_PARTS),
    conda:
        ENVIRONMENT
    resources:
        **asked("replay_statistics"),
    params:
        run=run_folder,
        settings=settings_of("replay_statistics"),
    shell:
        "stair replay-statistics --run {params.run} --model {wildcards.model} --part {wildcards.part}"
        " --threads {threads} > {log} 2>&1"
