# Tables from scored rows.
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
