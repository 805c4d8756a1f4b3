# What every model must show before anything is generated with it.
rule preflight:
    input:
        [
            path(model)
            for path in (paths.preflight, paths.preflight_limits)
            for model in cfg.models
            if restored.model_wanted(model)
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


# All that generates waits for it, too, but an old one will do: another benchmark makes no training response anew.
rule preflight_limits:
    input:
        preflight=paths.preflight("{model}"),
        pool=pool_to_look_at,
        benchmarks=asked_benchmarks,
    output:
        str(paths.preflight_limits("{model}")),
    log:
        str(paths.log("preflight", "{model}-limits")),
    benchmark:
        str(paths.timing("preflight_limits", "{model}"))
    priority: 3
    conda:
        ENVIRONMENT
    params:
        run=run_folder,
        settings=limit_settings,
    shell:
        "stair preflight --run {params.run} --model {wildcards.model} --limits > {log} 2>&1"
