# Figures from scored rows and an analyzed replay, of training curves, and of controllers.
localrules:
    figures,


rule figures:
    input:
        all_of("figures"),


rule figure:
    input:
        unpack(made_from("figure")),
    output:
        files_of("figure"),
    log:
        str(paths.log("figures", "{figure}")),
    benchmark:
        str(paths.timing("figure", "{figure}"))
    wildcard_constraints:
        figure=names_of("figure"),
    conda:
        ENVIRONMENT
    resources:
        **asked("figure"),
    params:
        run=run_folder,
        settings=settings_of("figure"),
    shell:
        "stair figures --run {params.run} --name {wildcards.figure} > {log} 2>&1"


rule training_figure:
    input:
        unpack(made_from("training_figure")),
    output:
        files_of("training_figure"),
    log:
        str(paths.log("figures", "{figure}")),
    benchmark:
        str(paths.timing("training_figure", "{figure}"))
    wildcard_constraints:
        figure=names_of("training_figure"),
    conda:
        ENVIRONMENT
    resources:
        **asked("training_figure"),
    params:
        run=run_folder,
        settings=settings_of("training_figure"),
    shell:
        "stair figures --run {params.run} --name {wildcards.figure} > {log} 2>&1"


rule diagram:
    input:
        unpack(made_from("diagram")),
    output:
        files_of("diagram"),
    log:
        str(paths.log("figures", "{figure}")),
    benchmark:
        str(paths.timing("diagram", "{figure}"))
    wildcard_constraints:
        figure=names_of("diagram"),
    conda:
        ENVIRONMENT
    resources:
        **asked("diagram"),
    params:
        run=run_folder,
        settings=settings_of("diagram"),
    shell:
        "stair figures --run {params.run} --name {wildcards.figure} > {log} 2>&1"
