# Controllers on frozen backbones.
rule training:
    input:
        [
            path
            for controller in cfg.controllers
            for model in cfg.trained(controller)
            for path in (
                paths.weights(model, controller),
                paths.controller(model, controller) / "curve.csv",
            )
        ],


rule train_controller:
    input:
        model=model_files,
        pool=paths.training_pool("{model}"),
        rollouts=paths.rollouts("{model}"),
        sessions=paths.training_sessions("{model}"),
        validation=paths.validation_sessions("{model}"),
    output:
        str(paths.weights("{model}", "{controller}")),
        str(paths.controller("{model}", "{controller}") / "curve.csv"),
    log:
        str(paths.log("training", "{model}", "{controller}")),
    benchmark:
        str(paths.timing("train_controller", "{model}", "{controller}"))
    priority: 2
    conda:
        ENVIRONMENT
    params:
        run=run_folder,
        settings=training_settings,
    shell:
        "stair train --run {params.run} --model {wildcards.model} --controller {wildcards.controller}"
        " --threads {threads} > {log} 2>&1"
