# Verdicts on generated rows. No rule that generates has a scored file as input.
rule scores:
    input:
        inputs.target("scores"),


rule score_condition:
    input:
        responses=inputs.answers,
        benchmark=paths.benchmark("{benchmark}"),
    output:
        paths.scored("{model}", "{benchmark}", "{study}/{condition}"),
    log:
        paths.log("scores", "{model}", "{benchmark}", "{study}", "{condition}"),
    wildcard_constraints:
        study=one_of(SECTIONS),
        condition=one_of(
            name for study in SECTIONS for name in cfg.conditions_of(study)
        ),
    params:
        settings=settings_of("score_condition"),
    shell:
        job("score_condition", "study")
