# Crossed-history replay: a design, shards that measure its batches, the seal, which writes their checksums, and the
# analysis of the measurements on a CPU.
rule replay:
    input:
        inputs.target("replay"),


if cfg.replay is not None:

    REPLAYED = cfg.replay.benchmark

    rule replay_design:
        input:
            benchmark=paths.benchmark(REPLAYED),
            sessions=paths.evaluation_sessions(REPLAYED),
            responses=paths.responses("{model}", REPLAYED, cfg.replay.condition),
            preflight=paths.preflight("{model}"),
        output:
            problems=paths.replay_problems("{model}"),
            histories=paths.replay_histories("{model}"),
        log:
            paths.log("replay", "{model}-design"),
        params:
            settings=settings_of("replay_design"),
        shell:
            job("replay_design")

    rule replay_shard:
        input:
            problems=paths.replay_problems("{model}"),
            histories=paths.replay_histories("{model}"),
            benchmark=paths.benchmark(REPLAYED),
            sessions=paths.evaluation_sessions(REPLAYED),
            responses=paths.responses("{model}", REPLAYED, cfg.replay.condition),
            preflight=paths.preflight("{model}"),
        output:
            marker("replay", "{model}"),
        log:
            paths.log("replay", "{model}", "{shard}-of-{of}"),
        resources:
            gpu=gpus("replay_shard"),
        params:
            settings=settings_of("replay_shard"),
        shell:
            job("replay_shard")

    rule seal_replay:
        input:
            problems=paths.replay_problems("{model}"),
            histories=paths.replay_histories("{model}"),
            benchmark=paths.benchmark(REPLAYED),
            sessions=paths.evaluation_sessions(REPLAYED),
            responses=paths.responses("{model}", REPLAYED, cfg.replay.condition),
            preflight=paths.preflight("{model}"),
            shards=inputs.replay_shards,
        output:
            paths.replay_checksums("{model}"),
        log:
            paths.log("replay", "{model}-seal"),
        params:
            settings=settings_of("seal_replay"),
        shell:
            job("seal_replay")

    rule replay_statistics:
        input:
            checksums=paths.replay_checksums("{model}"),
            problems=paths.replay_problems("{model}"),
            histories=paths.replay_histories("{model}"),
        output:
            paths.replay_statistics("{model}", "{part}"),
        log:
            paths.log("replay", "{model}-{part}"),
        params:
            settings=settings_of("replay_statistics"),
        shell:
            job("replay_statistics")
