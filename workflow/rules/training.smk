# Controllers on frozen backbones.
rule training:
    input:
        [
            path
            for controller in cfg.controllers
            for model in cfg.trained(controller)
            for path in paths.controller_files(cfg, model, controller)
        ],


rule train_controller:
    input:
        trained_on,
    output:
        controller_files("stair"),
    log:
        str(paths.log("training", "{model}", "{controller}")),
    benchmark:
        str(paths.timing("train_controller", "{model}", "{controller}"))
    wildcard_constraints:
        controller=controllers_of("stair", "bank_free"),
    priority: 2
    conda:
        ENVIRONMENT
    resources:
        gpu=training_gpus(),
    params:
        run=run_folder,
        settings=training_settings,
        workers=training_workers(),
    shell:
        "{params.workers}stair train --run {params.run} --model {wildcards.model} --controller {wildcards.controller}"
        " --threads {threads} > {log} 2>&1"


# The same command; what it writes depends on the kind.
use rule train_controller as train_lora with:
    output:
        controller_files("lora"),
    benchmark:
        str(paths.timing("train_lora", "{model}", "{controller}"))
    wildcard_constraints:
        controller=controllers_of("lora"),


use rule train_controller as train_lora_stair with:
    output:
        controller_files("lora_stair"),
    benchmark:
        str(paths.timing("train_lora_stair", "{model}", "{controller}"))
    wildcard_constraints:
        controller=controllers_of("lora_stair"),
