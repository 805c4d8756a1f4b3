# Tables from scored rows.
localrules:
    tables,


rule tables:
    input:
        all_of("tables"),


rule table:
    input:
        unpack(made_from("table")),
    output:
        files_of("table"),
    log:
        str(paths.log("tables", "{table}")),
    benchmark:
        str(paths.timing("table", "{table}"))
    wildcard_constraints:
        table=names_of("table"),
    conda:
        ENVIRONMENT
    resources:
        **asked("table"),
    params:
        run=run_folder,
        settings=settings_of("table"),
    shell:
        "stair tables --run {params.run} --name {wildcards.table} > {log} 2>&1"
