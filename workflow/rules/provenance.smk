# The run in one file: versions, hardware, seeds, revisions, costs, and every output with its checksum.
rule provenance:
    input:
        tables=[paths.table(name) for name in TABLES],
        figures=[paths.figure(name, ".csv") for name in (*FIGURES, *DRAWN_CURVES)],
        # Nothing else leads to these.
        cards=of_each_trained_model(paths.data_card),
        response_cards=response_cards(),
        limits=[
            path
            for model in cfg.models
            if restored.model_wanted(model)
            for path in limits_of(model)
        ],
        report=DATA_REPORT[:1] if REPORTED else [],
    output:
        str(paths.provenance),
    log:
        str(paths.log("provenance", "all")),
    conda:
        ENVIRONMENT
    params:
        run=run_folder,
        settings=digests.digest(digests.provenance(cfg)),
    shell:
        "stair provenance --run {params.run} > {log} 2>&1"
