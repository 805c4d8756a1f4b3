# Small backbones that the run trains itself, in place of models from the hub.
rule backbone:
    output:
        [str(paths.backbone("{model}") / name) for name in BACKBONE_FILES],
    log:
        str(paths.log("backbone", "{model}")),
    benchmark:
        str(paths.timing("backbone", "{model}"))
    priority: 3  # what most of the run waits for
    conda:
        ENVIRONMENT
    params:
        run=run_folder,
        settings=backbone_settings,
    shell:
        "stair backbone --run {params.run} --model {wildcards.model} --threads {threads} > {log} 2>&1"
