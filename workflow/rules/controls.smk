# The study with a shared T1 history: the commands and the files of continuous evaluation, with conditions of its own.
localrules:
    controls,


CONTROLS = "|".join(map(re.escape, cfg.shared_t1().conditions)) or "none"


rule controls:
    input:
        all_of("controls"),


rule controls_shard:
    input:
        unpack(made_from("shared_t1")),
        model=weights_of("shared_t1"),
        preflight=paths.preflight("{model}"),
        limits=paths.preflight_limits("{model}", "{benchmark}"),
    output:
        marker_of("shared_t1"),
    log:
        str(
            paths.log(
                "controls", "{model}", "{benchmark}", "{condition}-{shard}-of-{of}"
            )
        ),
    benchmark:
        str(
            paths.timing(
                "controls_shard",
                "{model}",
                "{benchmark}",
                "{condition}-{shard}-of-{of}",
            )
        )
    wildcard_constraints:
        condition=CONTROLS,
    conda:
        ENVIRONMENT
    resources:
        **asked("shared_t1"),
    params:
        run=run_folder,
        settings=settings_of("shared_t1"),
    shell:
        "stair controls --run {params.run} --model {wildcards.model} --benchmark {wildcards.benchmark}"
        " --condition {wildcards.condition} --shard {wildcards.shard} --of {wildcards.of}"
        " --threads {threads} > {log} 2>&1"


rule seal_controls:
    input:
        unpack(made_from("shared_t1")),
        shards=shards_of("shared_t1"),
    output:
        files_of("shared_t1"),
    log:
        str(paths.log("controls", "{model}", "{benchmark}", "{condition}-seal")),
    benchmark:
        str(paths.timing("seal_controls", "{model}", "{benchmark}", "{condition}"))
    wildcard_constraints:
        condition=CONTROLS,
    conda:
        ENVIRONMENT
    resources:
        **asked("shared_t1", seals=True),
    params:
        run=run_folder,
        settings=settings_of("shared_t1"),
    shell:
        "stair controls --run {params.run} --model {wildcards.model} --benchmark {wildcards.benchmark}"
        " --condition {wildcards.condition} --seal > {log} 2>&1"


rule score_controls:
    input:
        unpack(made_from("shared_t1_scores")),
    output:
        files_of("shared_t1_scores"),
    log:
        str(paths.log("scores", "{model}", "{benchmark}", "shared_t1-{condition}")),
    benchmark:
        str(paths.timing("score_controls", "{model}", "{benchmark}", "{condition}"))
    wildcard_constraints:
        condition=CONTROLS,
    conda:
        ENVIRONMENT
    resources:
        **asked("shared_t1_scores"),
    params:
        run=run_folder,
        settings=settings_of("shared_t1_scores"),
    shell:
        "stair scores --controls --run {params.run} --model {wildcards.model} --benchmark {wildcards.benchmark}"
        " --condition {wildcards.condition} --threads {threads} > {log} 2>&1"
