# Verdicts on generated rows. No rule that generates has a scored file as input.
rule scores:
    input:
        evaluated(paths.evaluation),


rule score_condition:
    input:
        responses=paths.responses("{model}", "{benchmark}", "{condition}"),
        benchmark=paths.benchmark("{benchmark}"),
    output:
        str(paths.evaluation("{model}", "{benchmark}", "{condition}")),
    log:
        str(paths.log("scores", "{model}", "{benchmark}", "{condition}")),
    benchmark:
        str(paths.timing("score_condition", "{model}", "{benchmark}", "{condition}"))
    conda:
        ENVIRONMENT
    params:
        run=run_folder,
        settings=score_settings,
    shell:
        "stair scores --run {params.run} --model {wildcards.model} --benchmark {wildcards.benchmark}"
        " --condition {wildcards.condition} --threads {threads} > {log} 2>&1"
