# Figures from scored rows, and of training curves.
from stair.artifacts.names import FIGURES, TRAINING_FIGURE

DRAWN_CURVES = [
    TRAINING_FIGURE + model for model in cfg.models if paths.curves(cfg, model)
]


rule figures:
    input:
        [
            paths.figure(name, suffix)
            for name in (*FIGURES, *DRAWN_CURVES)
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


rule training_figure:
    input:
        training_curves,
    output:
        [
            str(paths.figure(TRAINING_FIGURE + "{model}", suffix))
            for suffix in (".pdf", ".png", ".csv")
        ],
    log:
        str(paths.log("figures", TRAINING_FIGURE + "{model}")),
    benchmark:
        str(paths.timing("training_figure", "{model}"))
    conda:
        ENVIRONMENT
    params:
        run=run_folder,
        settings=training_figure_settings,
    shell:
        "stair figures --run {params.run} --name training_{wildcards.model} > {log} 2>&1"
