# Verdicts on generated rows. No rule that generates has a scored file as input.
localrules:
    scores,


rule scores:
    input:
        all_of("scores"),


rule score_condition:
    input:
        unpack(made_from("scores")),
    output:
        files_of("scores"),
    log:
        str(paths.log("scores", "{model}", "{benchmark}", "{condition}")),
    benchmark:
        str(paths.timing("score_condition", "{model}", "{benchmark}", "{condition}"))
    conda:
        ENVIRONMENT
    resources:
        **asked("scores"),
    params:
        run=run_folder,
        settings=settings_of("scores"),
    shell:
        "stair scores --run {params.run} --model {wildcards.model} --benchmark {wildcards.benchmark}"
        " --condition {wildcards.condition} --threads {threads} > {log} 2>&1"
