# Tables and figures: of scored rows, an analyzed replay, training curves, controllers, and the cost of a bank.
rule tables:
    input:
        inputs.target("tables"),


rule table:
    input:
        unpack(inputs.table),
    output:
        [paths.table("{table}", suffix) for suffix in TABLE_SUFFIXES],
    log:
        paths.log("tables", "{table}"),
    wildcard_constraints:
        table=one_of(each.name for each in exhibits(cfg) if each.kind == "table"),
    params:
        settings=settings_of("table"),
    shell:
        job("table")


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
