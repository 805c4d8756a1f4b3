"""Preflight's record of a model. Every stage that opens the model checks it."""

from __future__ import annotations

from pathlib import Path

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.setting_places import Settings, chosen, source
from stair.records.files import read_mapping, write_json
from stair.records.keys import digest_of, file_digest


def check_template(config: Config, paths: RunPaths, model: str, digest: str) -> None:
    """Raises ValueError if a chat template's SHA-256 is not the configuration's, or not that of the run's first start."""
    asked = config.models[model].template_sha256
    if asked is not None and asked != digest:
        raise ValueError(f"the chat template has the SHA-256 {digest}, models.{model}.template_sha256 is {asked}")
    memo = _memo(paths, model)
    known = read_mapping(memo).get("template_sha256") if memo.is_file() else digest
    if known != digest:
        raise ValueError(
            f"the chat template has changed: SHA-256 {digest}, this run began with {known}; restore the template, or delete "
            f"{memo} to continue with the new one (responses under the old one are then not used)"
        )


def remember_template(paths: RunPaths, model: str, digest: str) -> None:
    """Records the template of the run's first start."""
    if not _memo(paths, model).is_file():
        write_json(_memo(paths, model), {"template_sha256": digest})


def check_model_files(config: Config, paths: RunPaths, model: str, revision: str, template: str) -> None:
    """Raises ValueError if a model's files or template are not those that preflight checked; without a record, compares with the
    configuration alone.
    """
    path = paths.preflight(model)
    recorded = read_mapping(path) if path.is_file() else {}
    if (recorded.get("template_sha256", template), recorded.get("model_revision", revision)) != (template, revision):
        raise ValueError(
            f"the files of models.{model} are not those that preflight checked ({path}); restore them, or check again: "
            f"stair preflight-model --run {paths.folder} --model {model}"
        )
    try:
        check_template(config, paths, model, template)
    except ValueError as error:
        raise ValueError(f"models.{model}: {error}") from None


def prompts_settings(config: Config, model: str, prompts: str) -> Settings:
    """The settings of a model's prompts of `training_pool` or a benchmark, and of their limits."""
    settings, place = config.models[model], f"models.{model}"
    if prompts == "training_pool":
        template, most = config.training_pool.prompt, settings.rollout_sampling.max_new_tokens
    else:
        template, most = config.benchmarks[prompts].prompt, settings.sampling_for(prompts).max_new_tokens
    sampling = "rollout_sampling" if prompts == "training_pool" else "evaluation_sampling"
    return {
        **source(place, settings),
        **chosen(place, settings, "thinking"),
        f"{place}.{sampling}.max_new_tokens": most,
        f"prompts.{template}": config.prompts[template],
    }


def prompts_digest(config: Config, paths: RunPaths, model: str, prompts: str) -> str:
    """SHA-256 of a model's prompts of `training_pool` or a benchmark, and of their output limit."""
    table = paths.training_pool(model) if prompts == "training_pool" else paths.benchmark(prompts)
    return digest_of({"settings": prompts_settings(config, model, prompts), "problems": file_digest(table)})


def require_preflight(config: Config, paths: RunPaths, model: str, prompts: str) -> None:
    """Raises ValueError if preflight has not accepted the present model and its present prompts."""
    limits = paths.preflight_limits(model, prompts)
    where = f"--run {paths.folder} --model {model}"
    again = f"stair preflight-limits {where} --prompts {prompts}"
    for path, how in ((paths.preflight(model), f"stair preflight-model {where}"), (limits, again)):
        if not path.is_file():
            raise ValueError(
                f"{path} does not exist: preflight has not checked models.{model} yet, or rejected it; run: {how}"
            )
    if read_mapping(limits).get("prompts_sha256") != prompts_digest(config, paths, model, prompts):
        raise ValueError(
            f"{limits} is of other problems or settings: the prompts of {prompts} have changed since preflight "
            f"checked them; check again: {again}"
        )


def _memo(paths: RunPaths, model: str) -> Path:
    return paths.work("templates") / f"{model}.json"
