# Small backbones that the run trains itself, instead of models from the hub.
rule backbones:
    input:
        inputs.target("backbones"),


rule backbone:
    output:
        [paths.backbone("{model}") / name for name in BACKBONE_OUTPUTS],
    log:
        paths.log("backbone", "{model}"),
    priority: 3  # most jobs wait for it
    params:
        settings=settings_of("backbone"),
    shell:
        job("backbone")
