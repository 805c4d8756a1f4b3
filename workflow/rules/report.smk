# The run on one page: its outcome first, then scope, cost, tables and figures.
rule report:
    input:
        unpack(made_from("report")),
    output:
        files_of("report"),
    log:
        str(paths.log("report", "all")),
    benchmark:
        str(paths.timing("report"))
    conda:
        ENVIRONMENT
    params:
        run=run_folder,
        settings=settings_of("report"),
    shell:
        "stair report --run {params.run} > {log} 2>&1"
