# Controllers on frozen backbones.
localrules:
    training,


rule training:
    input:
        all_of("training"),


def training_workers():
    """What starts several processes of one command, each with a GPU of its own; nothing for one."""
    count = cfg.training.workers
    if count == 1:
        return ""
    # The processes find each other, so they run here and not in the warm process.
    torchrun = "torchrun --standalone --no-python"
    return f"env -u STAIR_WARM {torchrun} --nproc-per-node {count} -- "


def training_gpus():
    """The GPUs of a training, one a worker."""
    return cfg.training.workers * cfg.gpus_for("transformers")


def controllers_of(*kinds):
    """A pattern of the controllers of these kinds."""
    keys = [re.escape(key) for key, c in cfg.controllers.items() if c.kind in kinds]
    return "|".join(keys) or "none"


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
        gpu=training_gpus(),
    params:
        run=RUN,
        settings=settings_of("controller"),
        workers=training_workers(),
    shell:
        "{params.workers}stair train --run {params.run} --model {wildcards.model} --controller {wildcards.controller}"
        " --threads {threads} > {log} 2>&1"


# The same command; what it writes depends on the kind.
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
