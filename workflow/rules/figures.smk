# Figures of scored rows, an analyzed replay, training curves, controllers, and the cost of a bank.
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
    wildcard_constraints:
        figure=one_of(each.name for each in exhibits(cfg) if each.kind == "figure"),
    params:
        settings=settings_of("figure"),
    shell:
        job("figure")
