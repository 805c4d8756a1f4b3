# Figures from scored rows and an analyzed replay, of training curves, of controllers, and of what a bank costs.
localrules:
    figures,


rule figures:
    input:
        inputs.target("figures"),


rule figure:
    input:
        unpack(inputs.figure),
    output:
        [paths.figure("{figure}", suffix) for suffix in FIGURE_SUFFIXES],
    log:
        paths.log("figures", "{figure}"),
    benchmark:
        paths.timing("figure", "{figure}")
    wildcard_constraints:
        figure=one_of(table_inputs.figures_of(cfg)),
    conda:
        ENVIRONMENT
    resources:
        **requested("figure"),
    params:
        settings=settings_of("figure"),
    shell:
        "stair figures --name {wildcards.figure} {input:q} > {log:q} 2>&1"


rule training_figure:
    input:
        curves=inputs.training_figure,
    output:
        [paths.figure("{figure}", suffix) for suffix in FIGURE_SUFFIXES],
    log:
        paths.log("figures", "{figure}"),
    benchmark:
        paths.timing("training_figure", "{figure}")
    wildcard_constraints:
        figure=one_of(table_inputs.training_figures(cfg)),
    conda:
        ENVIRONMENT
    resources:
        **requested("training_figure"),
    params:
        settings=settings_of("training_figure"),
    shell:
        "stair figures --name {wildcards.figure} {input:q} > {log:q} 2>&1"


rule bank_cost_figure:
    input:
        runtime=inputs.bank_cost_figure,
    output:
        [paths.figure("{figure}", suffix) for suffix in FIGURE_SUFFIXES],
    log:
        paths.log("figures", "{figure}"),
    benchmark:
        paths.timing("bank_cost_figure", "{figure}")
    wildcard_constraints:
        figure=one_of(table_inputs.cost_figures(cfg)),
    conda:
        ENVIRONMENT
    resources:
        **requested("bank_cost_figure"),
    params:
        settings=settings_of("bank_cost_figure"),
    shell:
        "stair figures --name {wildcards.figure} {input:q} > {log:q} 2>&1"


rule diagram:
    input:
        unpack(inputs.diagram),
    output:
        [paths.figure("{figure}", suffix) for suffix in FIGURE_SUFFIXES],
    log:
        paths.log("figures", "{figure}"),
    benchmark:
        paths.timing("diagram", "{figure}")
    wildcard_constraints:
        figure=one_of(table_inputs.DIAGRAMS),
    conda:
        ENVIRONMENT
    resources:
        **requested("diagram"),
    params:
        settings=settings_of("diagram"),
    shell:
        "stair figures --name {wildcards.figure} {input:q} > {log:q} 2>&1"
