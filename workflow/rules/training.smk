# Controllers on frozen backbones.
from stair.config.training import CONTROLLER_FILES


rule training:
    input:
        inputs.target("training"),


rule train_controller:
    input:
        unpack(inputs.training),
    output:
        [
            paths.controller("{model}", "{controller}") / name
            for name in CONTROLLER_FILES["stair"]
        ],
    log:
        paths.log("training", "{model}", "{controller}"),
    wildcard_constraints:
        controller=controllers_of("stair", "bank_free"),
    priority: 2
    resources:
        gpu=gpus("train_controller"),
    params:
        settings=settings_of("train_controller"),
    shell:
        job("train_controller")


# The same command; its outputs depend on the kind.
use rule train_controller as train_lora with:
    output:
        [
            paths.controller("{model}", "{controller}") / name
            for name in CONTROLLER_FILES["lora"]
        ],
    wildcard_constraints:
        controller=controllers_of("lora"),
    resources:
        gpu=gpus("train_lora"),
    params:
        settings=settings_of("train_lora"),


use rule train_controller as train_lora_stair with:
    output:
        [
            paths.controller("{model}", "{controller}") / name
            for name in CONTROLLER_FILES["lora_stair"]
        ],
    wildcard_constraints:
        controller=controllers_of("lora_stair"),
    resources:
        gpu=gpus("train_lora_stair"),
    params:
        settings=settings_of("train_lora_stair"),
