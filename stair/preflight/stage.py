"""The preflight stage: what a model must show before anything is generated with it. Writes preflight/<model>.json."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from stair.backbones.architecture import Architecture, describe
from stair.backbones.revision import model_revision, revision_digests
from stair.config.model import Config
from stair.config.paths import RunPaths, require_folder
from stair.conversation.renderer import Renderer
from stair.core import user_message
from stair.hub.revisions import check_contents
from stair.preflight.limits import Limit, longest_prompt
from stair.preflight.properties import (
    Property,
    PropertyError,
    check_properties,
    rendered_examples,
)
from stair.preflight.weights import check_weights
from stair.protocol.preflight_record import check_template, prompts_digest, remember_template
from stair.records.files import read_mapping, write_json
from stair.records.manifest import write_manifest
from stair.records.schemas import BENCHMARK, TRAINING_POOL
from stair.records.tables import read_table


def run(config: Config, paths: RunPaths, model: str) -> None:
    """Looks at a model's tokenizer, template and weights, and writes what was seen.

    It depends on the model alone, because everything that generates waits for it: were prompts or limits looked at here, a
    change of one benchmark would make every training response anew. `limits` looks at those.

    Raises:
        ValueError: the first property that does not hold, or a template other than before.
    """
    settings = config.models[model]
    memo = paths.work("revisions") / f"{model}.json"
    with _named(config, paths, model) as folder:
        renderer = Renderer.load(folder, thinking=settings.thinking)
        digest = renderer.template_sha256
        check_template(config, paths, model, digest)
        properties = check_properties(renderer)
        architecture = _architecture(folder)
        if renderer.tokens > architecture.vocabulary:
            raise PropertyError(f"the tokenizer has {renderer.tokens} tokens, the vocabulary {architecture.vocabulary}")
        properties.append(Property("weights", check_weights(folder)))
        check_contents(config, paths, f"models.{model}", revision_digests(folder, memo))
        revision = model_revision(folder, memo)
    output = paths.preflight(model)
    write_json(
        output,
        {
            "model": model,
            "thinking": settings.thinking,
            "template_sha256": digest,
            "model_revision": revision,
            "properties": {one.name: one.seen for one in properties},
            "examples": rendered_examples(renderer),
        },
    )
    write_manifest(output, stage="preflight", settings={})
    remember_template(paths, model, digest)
    print(f"{model}: {len(properties)} properties hold, template {digest[:12]}")


def limits(config: Config, paths: RunPaths, model: str, name: str) -> None:
    """Holds the longest prompt of `training_pool` or a benchmark, with its output limit, to the model's positions.

    Raises:
        ValueError: one does not fit, a problem holds a marker of turns, or the template is another than before.
    """
    if not paths.preflight(model).is_file():
        raise ValueError(f"{paths.preflight(model)} is not there; look at the model itself first, without --limits")
    with _named(config, paths, model) as folder:
        renderer = Renderer.load(folder, thinking=config.models[model].thinking)
        check_template(config, paths, model, renderer.template_sha256)
        found = longest_prompt(renderer, _architecture(folder), name, *_prompts(config, paths, model, name))
    output = paths.preflight_limits(model, name)
    told = {"seen": _told(found), "prompts_sha256": prompts_digest(config, paths, model, name)}
    write_json(output, {"model": model, **asdict(found), **told})
    write_manifest(output, stage="preflight", settings={})
    print(f"{model}: {name}: {_told(found)}")


@contextmanager
def _named(config: Config, paths: RunPaths, model: str) -> Iterator[Path]:
    """A model's folder; a fault says whose it is."""
    place = f"models.{model}"
    if not paths.model_folder(config, model).is_dir():
        check_contents(config, paths, place)  # of what is not fetched yet it says how
    folder = require_folder(paths.model_folder(config, model), place)
    try:
        yield folder
    except ValueError as error:
        raise ValueError(f"preflight of {model} ({folder}): {error}") from None


def _architecture(folder: Path) -> Architecture:
    path = folder / "config.json"
    try:
        return describe(read_mapping(path))
    except ValueError as error:
        raise ValueError(str(error) if str(path) in str(error) else f"{path}: {error}") from None


def _prompts(config: Config, paths: RunPaths, model: str, name: str) -> tuple[Iterator[tuple[str, str]], int]:
    """The first prompts that a model gets of one kind, by record or problem, and their output limit."""
    settings = config.models[model]
    if name == "training_pool":
        prompt, identity = config.prompts[config.training_pool.prompt], "record_id"
        rows, most = read_table(paths.training_pool(model), TRAINING_POOL), settings.rollout_sampling.max_new_tokens
    else:
        prompt, identity = config.prompts[config.benchmarks[name].prompt], "problem_id"
        rows, most = read_table(paths.benchmark(name), BENCHMARK), settings.sampling_for(name).max_new_tokens
    return ((row[identity], user_message(prompt, row["problem"])) for row in rows), most


def _told(limit: Limit) -> str:
    text = (
        f"longest prompt {limit.longest_prompt} tokens ({limit.problem_id}), {limit.max_new_tokens} to generate, "
        f"{limit.context} positions"
    )
    if limit.what != "training_pool" and limit.four_turns > limit.context:
        text += f"; four turns at their limits would take {limit.four_turns}, so a session can exhaust the context"
    return text
