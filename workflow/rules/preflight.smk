# Checks of every model before it generates.
rule preflight:
    input:
        inputs.target("preflight"),


# Its output contains the digest of the model's files, and is the model of all generating rules.
rule preflight_model:
    input:
        model=inputs.weights,
    output:
        paths.preflight("{model}"),
    log:
        paths.log("preflight", "{model}"),
    priority: 3
    params:
        settings=settings_of("preflight_model"),
    shell:
        job("preflight_model")
