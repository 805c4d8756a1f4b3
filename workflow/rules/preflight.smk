# Checks of every model before it generates.
localrules:
    preflight,


rule preflight:
    input:
        all_of("preflight"),


# Its only input is the model: all generating jobs come after it, and would rerun with it.
rule preflight_model:
    input:
        model=weights_of("preflight"),
    output:
        files_of("preflight"),
    log:
        str(paths.log("preflight", "{model}")),
    benchmark:
        str(paths.timing("preflight_model", "{model}"))
    priority: 3
    conda:
        ENVIRONMENT
    resources:
        **asked("preflight"),
    params:
        run=run_folder,
        settings=settings_of("preflight"),
    shell:
        "stair preflight --run {params.run} --model {wildcards.model} > {log} 2>&1"


# One for each kind of prompt, so that a new benchmark makes no training response stale.
rule preflight_limits:
    input:
        unpack(made_from("preflight_limits")),
    output:
        files_of("preflight_limits"),
    log:
        str(paths.log("preflight", "{model}-{prompts}")),
    benchmark:
        str(paths.timing("preflight_limits", "{model}", "{prompts}"))
    priority: 3
    conda:
        ENVIRONMENT
    resources:
        **asked("preflight_limits"),
    params:
        run=run_folder,
        settings=settings_of("preflight_limits"),
    shell:
        "stair preflight --run {params.run} --model {wildcards.model} --limits {wildcards.prompts} > {log} 2>&1"
