# Figures from scored rows.
from stair.artifacts.names import FIGURES


rule figures:
    input:
        [
            paths.figure(name, suffix)
            for name in FIGURES
            for suffix in (".pdf", ".png", ".csv")
        ],


rule figure:
    input:
        benchmarks=[paths.benchmark(benchmark) for benchmark in cfg.benchmarks],
        rows=evaluated(paths.evaluation),
        checks=paths.checks,
    output:
        [str(paths.figure("{figure}", suffix)) for suffix in (".pdf", ".png", ".csv")],
    log:
        str(paths.log("figures", "{figure}")),
    benchmark:
        str(paths.timing("figure", "{figure}"))
    wildcard_constraints:
        figure="|".join(FIGURES),
    conda:
        ENVIRONMENT
    params:
        run=run_folder,
        settings=digests.digest(digests.tables(cfg)),
    shell:
        "stair figures --run {params.run} --name {wildcards.figure} > {log} 2>&1"
