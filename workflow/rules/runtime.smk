# The runtime study: what a bank costs at prefill, in memory and in transfer; and its figure.
localrules:
    runtime,


rule runtime:
    input:
        all_of("runtime"),


rule measure_runtime:
    input:
        unpack(made_from("runtime")),
        model=weights_of("runtime"),
        preflight=preflight_of("runtime", cfg.runtime and cfg.runtime.benchmark),
    output:
        files_of("runtime"),
    log:
        str(paths.log("runtime", "{model}")),
    benchmark:
        str(paths.timing("measure_runtime", "{model}"))
    conda:
        ENVIRONMENT
    resources:
        **asked("runtime"),
    params:
        run=run_folder,
        settings=settings_of("runtime"),
    shell:
        "stair runtime --run {params.run} --model {wildcards.model} --threads {threads} > {log} 2>&1"


rule bank_cost_figure:
    input:
        unpack(made_from("bank_cost_figure")),
    output:
        files_of("bank_cost_figure"),
    log:
        str(paths.log("figures", "{figure}")),
    benchmark:
        str(paths.timing("bank_cost_figure", "{figure}"))
    wildcard_constraints:
        figure=names_of("bank_cost_figure"),
    conda:
        ENVIRONMENT
    resources:
        **asked("bank_cost_figure"),
    params:
        run=run_folder,
        settings=settings_of("bank_cost_figure"),
    shell:
        "stair figures --run {params.run} --name {wildcards.figure} > {log} 2>&1"
