# Controllers on frozen backbones. One command trains every kind; a kind's outputs are a rule's.
from stair.config.training import CONTROLLER_FILES

TRAINED = {
    "train_controller": ("stair", "bank_free"),
    "train_lora": ("lora",),
    "train_lora_stair": ("lora_stair",),
}


rule training:
    input:
        inputs.target("training"),


for RULE, (KIND, *SAME) in TRAINED.items():

    rule:
        name:
            RULE
        input:
            unpack(inputs.training),
        output:
            [
                paths.controller("{model}", "{controller}") / file
                for file in CONTROLLER_FILES[KIND]
            ],
        log:
            paths.log("training", "{model}", "{controller}"),
        wildcard_constraints:
            controller=controllers_of(KIND, *SAME),
        priority: 2
        resources:
            gpu=gpus(RULE),
        params:
            settings=settings_of(RULE),
        shell:
            job(RULE)
