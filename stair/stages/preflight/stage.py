"""The preflight stage: checks of a model, its prompts and limits before it generates. Writes preflight/."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

from stair.config.model import Config
from stair.config.paths import RunPaths, require_folder
from stair.core import TURNS, user_message
from stair.models.architecture import Architecture
from stair.models.hub import check_fetched
from stair.models.model_folder import model_revision, read_architecture
from stair.records.files import write_json
from stair.records.rows import BenchmarkProblem, SourceRecord
from stair.records.schemas import BENCHMARK, TRAINING_POOL
from stair.records.tables import rows_as
from stair.sessions.preflight_record import check_template, prompts_digest, remember_template
from stair.sessions.renderer import Renderer
from stair.stages.preflight.properties import (
    Property,
    PropertyError,
    check_properties,
    check_weights,
    conversation_text,
    outer_white_space,
    rendered_examples,
)

_BATCH = 512


def run(config: Config, paths: RunPaths, model: str) -> None:
    """Checks a model's tokenizer, template and weights, and writes their properties.

    It depends on the model alone, because every generating rule needs it. `limits` checks prompts and limits, so that a changed
    benchmark does not make training responses stale.

    Raises:
        ValueError: a property does not hold, or the template has changed.
    """
    settings = config.models[model]
    memo = paths.work("revisions") / f"{model}.json"
    with _model_folder(config, paths, model) as folder:
        renderer = Renderer.load(folder, thinking=settings.thinking)
        digest = renderer.template_sha256
        check_template(config, paths, model, digest)
        properties = check_properties(renderer)
        architecture = read_architecture(folder)
        if renderer.tokens > architecture.vocabulary:
            raise PropertyError(f"the tokenizer has {renderer.tokens} tokens, the vocabulary {architecture.vocabulary}")
        properties.append(Property("weights", check_weights(folder)))
        check_fetched(config, paths, f"models.{model}")
        revision = model_revision(folder, memo)
    output = paths.preflight(model)
    write_json(
        output,
        {
            "model": model,
            "thinking": settings.thinking,
            "template_sha256": digest,
            "model_revision": revision,
            "properties": {one.name: one.text for one in properties},
            "examples": rendered_examples(renderer),
        },
    )
    remember_template(paths, model, digest)
    print(f"{model}: {len(properties)} properties hold, template {digest[:12]}")


def limits(config: Config, paths: RunPaths, model: str, prompts: str) -> None:
    """Checks that the longest prompt of `training_pool` or a benchmark fits into the context with its output limit.

    Raises:
        ValueError: it does not fit, a problem contains a turn marker, or the template has changed.
    """
    if not paths.preflight(model).is_file():
        raise ValueError(f"{paths.preflight(model)} does not exist; run `stair preflight-model` first")
    with _model_folder(config, paths, model) as folder:
        renderer = Renderer.load(folder, thinking=config.models[model].thinking)
        check_template(config, paths, model, renderer.template_sha256)
        table = paths.training_pool(model) if prompts == "training_pool" else paths.benchmark(prompts)
        files = (table, paths.dataset_file(config, prompts))
        users, most = _prompts(config, paths, model, prompts)
        limit = longest_prompt(renderer, read_architecture(folder), prompts, users, most, files=files)
    output = paths.preflight_limits(model, prompts)
    facts = {"seen": str(limit), "prompts_sha256": prompts_digest(config, paths, model, prompts)}
    write_json(output, {"model": model, **asdict(limit), **facts})
    print(f"{model}: {prompts}: {limit}")


@dataclass(frozen=True)
class Limit:
    """The longest prompt of one kind, and the output limit after it."""

    what: str
    longest_prompt: int
    problem_id: str
    max_new_tokens: int
    context: int

    def __str__(self) -> str:
        text = f"longest prompt {self.longest_prompt} tokens ({self.problem_id}), {self.max_new_tokens} to generate, "
        text += f"{self.context} positions"
        # The worst case: every turn at its limit and visible.
        four_turns = TURNS * (self.longest_prompt + self.max_new_tokens)
        if self.what != "training_pool" and four_turns > self.context:
            text += f"; four turns at their limits would take {four_turns}, so a session can exhaust the context"
        return text


def longest_prompt(
    renderer: Renderer,
    architecture: Architecture,
    what: str,
    users: Iterable[tuple[str, str]],
    max_new_tokens: int,
    *,
    files: tuple[Path, Path],
) -> Limit:
    """The longest first prompt of the user messages, which must fit into the context with the output limit.

    Args:
        users: (problem id, user message).
        files: the table of these rows, and the data set's file, for messages.

    Raises:
        PropertyError: the prompt does not fit, or a message contains a turn marker.
    """
    longest, problem = 0, ""
    for row, (name, ids) in enumerate(_encoded(renderer, users), 1):
        if ids.count(renderer.turn_start) != 2 or ids.count(renderer.turn_end) != 1:
            raise PropertyError(
                f"{what}: the text of problem {name}, row {row} of {files[0]}, contains a turn marker; clean it in {files[1]}"
            )
        if len(ids) > longest:
            longest, problem = len(ids), name
    if longest + max_new_tokens > architecture.context:
        raise PropertyError(
            f"{what}: the prompt of problem {problem} has {longest} tokens and max_new_tokens is {max_new_tokens}, together "
            f"more than the {architecture.context} positions of the model's RoPE (max_position_embeddings)"
        )
    return Limit(what, longest, problem, max_new_tokens, architecture.context)


def _encoded(renderer: Renderer, users: Iterable[tuple[str, str]]) -> Iterator[tuple[str, list[int]]]:
    """The ids of first prompts, encoded in batches; the template renders every one of them."""
    remaining, outer = iter(users), outer_white_space(renderer)
    while some := list(islice(remaining, _BATCH)):
        texts = [renderer.prompt_text([], user) for _, user in some]
        for (name, user), text in zip(some, texts, strict=True):
            if text != conversation_text(renderer, [], user, outer):
                raise PropertyError(f"the template does not write the prompt of problem {name} as it writes others")
        encoded = renderer.tokenizer(texts, add_special_tokens=False)["input_ids"]
        yield from zip((name for name, _ in some), encoded, strict=True)


@contextmanager
def _model_folder(config: Config, paths: RunPaths, model: str) -> Iterator[Path]:
    """A model's folder; errors inside the context name the model."""
    name = f"models.{model}"
    if not paths.model_folder(config, model).is_dir():
        check_fetched(config, paths, name)  # its error names the command that fetches the model
    folder = require_folder(paths.model_folder(config, model), name)
    try:
        yield folder
    except ValueError as error:
        raise ValueError(f"preflight of {model} ({folder}): {error}") from None


def _prompts(config: Config, paths: RunPaths, model: str, name: str) -> tuple[Iterator[tuple[str, str]], int]:
    """The user messages of one kind, by record or problem, and their output limit."""
    settings = config.models[model]
    if name == "training_pool":
        prompt, most = config.prompts[config.training_pool.prompt], settings.rollout_sampling.max_new_tokens
        records = rows_as(paths.training_pool(model), TRAINING_POOL, SourceRecord)
        return ((record.record_id, user_message(prompt, record.problem)) for record in records), most
    prompt, most = config.prompts[config.benchmarks[name].prompt], settings.sampling_for(name).max_new_tokens
    problems = rows_as(paths.benchmark(name), BENCHMARK, BenchmarkProblem)
    return ((problem.problem_id, user_message(prompt, problem.problem)) for problem in problems), most
