# Controllers on frozen backbones.
localrules:
    training,


rule training:
    input:
        all_of("training"),


rule train_controller:
    input:
        unpack(made_from("controller")),
        model=weights_of("controller"),
    output:
        files_of("controller", kind="stair"),
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
        **asked("controller"),
    params:
        run=run_folder,
        settings=settings_of("controller"),
        workers=training_workers(),
    shell:
        "{params.workers}stair train --run {params.run} --model {wildcards.model} --controller {wildcards.controller}"
        " --threads {threads} > {log} 2>&1"


# The same command; its outputs depend on the kind.
use rule train_controller as train_lora with:
    output:
        files_of("controller", kind="lora"),
    benchmark:
        str(paths.timing("train_lora", "{model}", "{controller}"))
    wildcard_constraints:
        controller=controllers_of("lora"),


use rule train_controller as train_lora_stair with:
    output:
        files_of("controller", kind="lora_stair"),
    benchmark:
        str(paths.timing("train_lora_stair", "{model}", "{controller}"))
    wildcard_constraints:
        controller=controllers_of("lora_stair"),
