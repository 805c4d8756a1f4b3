# The runtime study: what a bank costs at prefill, in memory and in transfer.
rule runtime:
    input:
        inputs.target("runtime"),


rule measure_runtime:
    input:
        unpack(inputs.runtime),
    output:
        paths.runtime("{model}"),
    log:
        paths.log("runtime", "{model}"),
    resources:
        gpu=gpus("measure_runtime"),
    params:
        settings=settings_of("measure_runtime"),
    shell:
        job("measure_runtime")
