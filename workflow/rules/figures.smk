# Figures from scored rows and an analyzed replay, of training curves, of controllers, and of what a bank costs.
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


# The same command; the inputs depend on the kind.
use rule figure as training_figure with:
    input:
        curves=inputs.training_figure,
    benchmark:
        paths.timing("training_figure", "{figure}")
    wildcard_constraints:
        figure=one_of(table_inputs.training_figures(cfg)),
    resources:
        **requested("training_figure"),
    params:
        settings=settings_of("training_figure"),


use rule figure as bank_cost_figure with:
    input:
        runtime=inputs.bank_cost_figure,
    benchmark:
        paths.timing("bank_cost_figure", "{figure}")
    wildcard_constraints:
        figure=one_of(table_inputs.cost_figures(cfg)),
    resources:
        **requested("bank_cost_figure"),
    params:
        settings=settings_of("bank_cost_figure"),


use rule figure as diagram with:
    input:
        unpack(inputs.diagram),
    benchmark:
        paths.timing("diagram", "{figure}")
    wildcard_constraints:
        figure=one_of(table_inputs.DIAGRAMS),
    resources:
        **requested("diagram"),
    params:
        settings=settings_of("diagram"),
