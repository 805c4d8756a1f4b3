# Verdicts on generated rows. No rule that generates has a scored file as input.
rule scores:
    input:
        inputs.target("scores"),


rule score_condition:
    input:
        responses=paths.responses("{model}", "{benchmark}", "{condition}"),
        benchmark=paths.benchmark("{benchmark}"),
    output:
        paths.scored("{model}", "{benchmark}", "{condition}"),
    log:
        paths.log("scores", "{model}", "{benchmark}", "{condition}"),
    params:
        settings=settings_of("score_condition"),
    shell:
        job("score_condition")


rule score_controls:
    input:
        responses=paths.shared_t1.responses("{model}", "{benchmark}", "{condition}"),
        benchmark=paths.benchmark("{benchmark}"),
    output:
        paths.shared_t1.scored("{model}", "{benchmark}", "{condition}"),
    log:
        paths.log("scores", "{model}", "{benchmark}", "shared_t1-{condition}"),
    wildcard_constraints:
        condition=one_of(inputs.shared_t1.config.conditions),
    params:
        settings=settings_of("score_controls"),
    shell:
        job("score_controls")
