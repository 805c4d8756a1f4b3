# What every model must show before anything is generated with it.
rule preflight:
    input:
        [
            path
            for model in cfg.models
            if restored.model_wanted(model)
            for path in [paths.preflight(model), *limits_of(model)]
        ],


# Made from the model alone: all that generates comes after it, and would run again with it.
rule preflight_model:
    input:
        model_files,
    output:
        str(paths.preflight("{model}")),
    log:
        str(paths.log("preflight", "{model}")),
    benchmark:
        str(paths.timing("preflight_model", "{model}"))
    priority: 3
    conda:
        ENVIRONMENT
    params:
        run=run_folder,
        settings=preflight_settings,
    shell:
        "stair preflight --run {params.run} --model {wildcards.model} > {log} 2>&1"


# One for each kind of prompt: another benchmark makes no training response anew.
rule preflight_limits:
    input:
        preflight=paths.preflight("{model}"),
        problems=prompts_to_look_at,
    output:
        str(paths.preflight_limits("{model}", "{prompts}")),
    log:
        str(paths.log("preflight", "{model}-{prompts}")),
    benchmark:
        str(paths.timing("preflight_limits", "{model}", "{prompts}"))
    priority: 3
    conda:
        ENVIRONMENT
    params:
        run=run_folder,
        settings=limit_settings,
    shell:
        "stair preflight --run {params.run} --model {wildcards.model} --limits {wildcards.prompts} > {log} 2>&1"
