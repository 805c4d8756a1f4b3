# Small backbones that the run trains itself, instead of models from the hub.
localrules:
    backbones,


rule backbones:
    input:
        all_of("backbones"),


rule backbone:
    output:
        files_of("backbone"),
    log:
        str(paths.log("backbone", "{model}")),
    benchmark:
        str(paths.timing("backbone", "{model}"))
    priority: 3  # most jobs wait for it
    conda:
        ENVIRONMENT
    resources:
        **asked("backbone"),
    params:
        run=run_folder,
        settings=settings_of("backbone"),
    shell:
        "stair backbone --run {params.run} --model {wildcards.model} --threads {threads} > {log} 2>&1"
