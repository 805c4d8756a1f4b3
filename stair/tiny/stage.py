"""The stage of generated data sets."""

from __future__ import annotations

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.records.files import replacing
from stair.tiny.generated_sets import write_benchmark, write_training_pool


def write_raw(config: Config, paths: RunPaths, name: str) -> None:
    """Writes a generated data set in the schema of the real one: a benchmark, or `training_pool`."""
    dataset = config.training_pool if name == "training_pool" else config.benchmarks[name]
    assert dataset.tiny is not None, "only data sets marked as tiny are generated"
    sizes = {key: item.tiny for key, item in config.benchmarks.items() if item.tiny is not None}
    with replacing(paths.dataset_file(config, name)) as partial:
        if name == "training_pool":
            write_training_pool(partial, dataset.tiny, sizes)
        else:
            write_benchmark(partial, name, dataset.tiny)
