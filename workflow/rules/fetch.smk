# Weights and data sets from the hub. Nothing else uses the network.
HUB_MODELS = {
    str(paths.model_folder(cfg, m)): m for m in cfg.models if cfg.models[m].repository
}
HUB_DATA = {
    str(paths.dataset_file(cfg, name)): name
    for name, item in [("training_pool", cfg.training_pool), *cfg.benchmarks.items()]
    if item.repository and not item.tiny and not item.path
}


rule fetch:
    input:
        [f"{folder}/config.json" for folder in HUB_MODELS],
        list(HUB_DATA),


for folder, key in HUB_MODELS.items():

    rule:
        name:
            f"fetch_model_{key}"
        output:
            f"{folder}/config.json",
        log:
            str(paths.log("fetch", key)),
        conda:
            ENVIRONMENT
        params:
            run=run_folder,
            key=key,
        shell:
            "stair fetch --run {params.run} --model {params.key} > {log} 2>&1"


for path, key in HUB_DATA.items():

    rule:
        name:
            f"fetch_data_{key}"
        output:
            path,
        log:
            str(paths.log("fetch", key)),
        conda:
            ENVIRONMENT
        params:
            run=run_folder,
            key=key,
        shell:
            "stair fetch --run {params.run} --data {params.key} > {log} 2>&1"
