"""Fetching models and data sets from the hub: the only code that uses the network."""

from __future__ import annotations

import os
from pathlib import Path

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.records.files import write_json

_MODEL_FILES = ["*.json", "*.safetensors", "*.jinja", "*.txt", "*.model"]


def fetch_model(config: Config, paths: RunPaths, model: str) -> None:
    """Downloads a model's weights, tokenizer and template; resumes what an earlier attempt left."""
    settings = config.models[model]
    assert settings.repository is not None, "only a model with a repository is fetched"
    os.environ["HF_HUB_OFFLINE"] = "0"
    from huggingface_hub import HfApi, snapshot_download

    folder = paths.model_folder(config, model)
    commit = HfApi().model_info(settings.repository, revision=settings.revision).sha
    print(f"fetching {settings.repository} at {commit}")
    snapshot_download(settings.repository, revision=commit, local_dir=folder, allow_patterns=_MODEL_FILES)
    _record(folder, settings.repository, commit)


def fetch_dataset(config: Config, paths: RunPaths, name: str) -> None:
    """Downloads the file of a data set."""
    dataset = config.training_pool if name == "training_pool" else config.benchmarks[name]
    assert dataset.repository is not None, "only a data set with a repository is fetched"
    if dataset.file is None:
        raise ValueError(f"{name}: 'file' must name the file within {dataset.repository}")
    os.environ["HF_HUB_OFFLINE"] = "0"
    from huggingface_hub import HfApi, hf_hub_download

    output = paths.dataset_file(config, name)
    commit = HfApi().dataset_info(dataset.repository, revision=dataset.revision).sha
    print(f"fetching {dataset.file} of {dataset.repository} at {commit}")
    folder = output.parents[len(Path(dataset.file).parts) - 1]
    hf_hub_download(dataset.repository, dataset.file, repo_type="dataset", revision=commit, local_dir=folder)
    _record(folder, dataset.repository, commit)


def _record(folder: Path, repository: str, commit: str | None) -> None:
    write_json(folder / "fetched.json", {"repository": repository, "commit": commit})
