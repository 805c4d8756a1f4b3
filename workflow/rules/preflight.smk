# What every model must show before anything is generated with it.
rule preflight:
    input:
        of_each_model(paths.preflight),


rule preflight_model:
    input:
        model=model_files,
        pool=paths.training_pool("{model}"),
        benchmarks=asked_benchmarks,
    output:
        str(paths.preflight("{model}")),
    log:
        str(paths.log("preflight", "{model}")),
    benchmark:
        str(paths.timing("preflight_model", "{model}"))
    priority: 2
    conda:
        ENVIRONMENT
    params:
        run=run_folder,
        settings=preflight_settings,
    shell:
        "stair preflight --run {params.run} --model {wildcards.model} > {log} 2>&1"
