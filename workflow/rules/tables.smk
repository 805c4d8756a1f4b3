# Tables from scored rows.
from stair.artifacts.names import table_names

TABLES = table_names(cfg.models, cfg.conditions)


rule tables:
    input:
        [
            paths.table(name, suffix)
            for name in TABLES
            for suffix in (".csv", ".md", ".tex")
        ],


rule table:
    input:
        benchmarks=[paths.benchmark(benchmark) for benchmark in cfg.benchmarks],
        rows=evaluated(paths.evaluation),
        checks=paths.checks,
    output:
        [str(paths.table("{table}", suffix)) for suffix in (".csv", ".md", ".tex")],
    log:
        str(paths.log("tables", "{table}")),
    benchmark:
        str(paths.timing("table", "{table}"))
    wildcard_constraints:
        table="|".join(map(re.escape, TABLES)),
    conda:
        ENVIRONMENT
    params:
        run=run_folder,
        settings=digests.digest(digests.tables(cfg)),
    shell:
        "stair tables --run {params.run} --name {wildcards.table} > {log} 2>&1"
