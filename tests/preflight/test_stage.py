"""The preflight stage on a model folder on disk: what it writes, and that another template stops the run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.resolve import ConfigError, resolve
from stair.pipeline.input_checks import check_inputs
from stair.sessions.backbone import Backbone
from stair.sessions.study import Study
from stair.stages.data import stage as data_stage
from stair.stages.evaluation import stage as evaluation_stage
from stair.stages.preflight import stage
from stair.stages.rollouts import stage as rollout_stage
from stair.stages.sessions.stage import evaluation as evaluation_sessions
from tests.conftest import TOKENS, random_model
from tests.preflight.test_properties import folder_of

ROOT = Path(__file__).parents[2]
MODEL = "qwen3.5-4b"


@pytest.fixture
def place(small_tokenizer: Callable[..., PreTrainedTokenizerFast], tmp_path: Path) -> Path:
    """A hybrid model's folder, a benchmark and a training pool."""
    random_model("qwen3_5").save_pretrained(tmp_path / "model")
    folder_of(small_tokenizer(True), tmp_path / "model")
    for name, count in (("bench", 8), ("pool", 20)):
        rows = [{"problem": f"What is {n} + {len(name)}?", "answer": str(n + len(name))} for n in range(count)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def configured(place: Path, **changes: Any) -> Config:
    """A run with that model, benchmark (by path and columns alone) and pool."""
    sampling = {"max_new_tokens": 40}
    model = {"label": "M", "path": str(place / "model"), "thinking": True, "dtype": "float32"}
    model |= {"rollout_sampling": sampling, "evaluation_sampling": sampling} | changes
    paper = resolve(ROOT, {"run": "paper"})
    return Config.model_validate(
        paper.model_dump(mode="json")
        | {
            "results": str(place / "results"),
            "models": {MODEL: model},
            "benchmarks": {"ours": {"label": "Ours", "path": str(place / "bench.jsonl"), "kind": "integer"}},
            "training_pool": {"name": "pool", "path": str(place / "pool.jsonl"), "validation_problems": 4},
            "controllers": {},
            "conditions": {"vanilla": {"label": "Vanilla", "turns": 1}},
            "overview": {"models": [MODEL]},
            "transitions": {"model": MODEL, "benchmark": "ours"},
            **dict.fromkeys(("replay", "controls", "runtime")),
        }
    )


def preflight(config: Config) -> dict[str, Any]:
    paths = RunPaths.of(config)
    if not paths.training_pool(MODEL).is_file():
        data_stage.benchmark(config, paths, "ours")
        data_stage.training_pool(config, paths, MODEL)
    stage.run(config, paths, MODEL)
    for name in ("training_pool", "ours"):
        stage.limits(config, paths, MODEL, name)
    return dict(json.loads(paths.preflight(MODEL).read_text()))


def test_what_is_written(place: Path) -> None:
    found = preflight(configured(place))
    template = (place / "model" / "chat_template.jinja").read_text()
    assert found["template_sha256"] == hashlib.sha256(template.encode()).hexdigest()
    assert found["properties"]["weights"].endswith("vocabulary head tied to the embeddings")
    paths = RunPaths.of(configured(place))
    for name in ("training_pool", "ours"):
        limit = json.loads(paths.preflight_limits(MODEL, name).read_text())
        assert (limit["what"], limit["context"], limit["max_new_tokens"]) == (name, 512, 40)
        assert limit["longest_prompt"] > 0
    assert found["examples"][0]["text"].endswith("<|im_start|>assistant\n<think>\n")
    assert all(token < TOKENS for example in found["examples"] for token in example["ids"])


@pytest.mark.parametrize(("turns", "factor"), [(1, 1), (4, 4)])
def test_a_server_is_asked_for_the_longest_conversation(place: Path, turns: int, factor: int) -> None:
    config = configured(place)
    preflight(config)
    paths = RunPaths.of(config)
    limit = json.loads(paths.preflight_limits(MODEL, "ours").read_text())
    for context in (512, 40):
        study: Any = SimpleNamespace(paths=paths, model=MODEL, benchmark="ours", settings=SimpleNamespace(turns=turns))
        study.backbone = SimpleNamespace(architecture=SimpleNamespace(context=context))
        assert Study._longest(study) == min(context, factor * (limit["longest_prompt"] + 40))


def test_another_template_stops_the_run(place: Path) -> None:
    config = configured(place)
    before = preflight(config)["template_sha256"]
    assert preflight(config)["template_sha256"] == before
    path = place / "model" / "chat_template.jinja"
    path.write_text(path.read_text() + "{#- says the same -#}")
    # Snakemake removes an output before its job runs again; the run remembers all the same.
    RunPaths.of(config).preflight(MODEL).unlink()
    with pytest.raises(ValueError, match="the chat template has changed: SHA-256") as caught:
        preflight(config)
    assert before in str(caught.value)
    assert not RunPaths.of(config).preflight(MODEL).exists()


def test_a_template_that_the_configuration_does_not_name_stops_the_run(place: Path) -> None:
    digest = preflight(configured(place))["template_sha256"]
    assert preflight(configured(place, template_sha256=digest))["template_sha256"] == digest
    with pytest.raises(ValueError, match=rf"models\.{MODEL}\.template_sha256 is {'0' * 64}"):
        preflight(configured(place, template_sha256="0" * 64))


def test_nothing_is_generated_with_another_model_than_was_looked_at(place: Path) -> None:
    """However a stage is started: what preflight has seen is compared with what is there."""
    config = configured(place)
    paths = RunPaths.of(config)
    preflight(config)
    Backbone.open(config, paths, MODEL)
    for name, text in (("chat_template.jinja", "{#- says the same -#}"), ("generation_config.json", "\n")):
        path = place / "model" / name
        before = path.read_text()
        path.write_text(before + text)
        with pytest.raises(ValueError, match=rf"files of models\.{MODEL} are not those that preflight checked"):
            Backbone.open(config, paths, MODEL)
        path.write_text(before)
    Backbone.open(config, paths, MODEL)
    with pytest.raises(ValueError, match=rf"models\.{MODEL}\.template_sha256 is {'0' * 64}"):
        Backbone.open(configured(place, template_sha256="0" * 64), paths, MODEL)


def test_nothing_is_generated_before_preflight_or_after_it_has_refused(place: Path) -> None:
    """Stages that are started by hand, too. Snakemake removes an output before its job runs again."""
    config = configured(place)
    paths = RunPaths.of(config)
    data_stage.benchmark(config, paths, "ours")
    data_stage.training_pool(config, paths, MODEL)
    evaluation_sessions(config, paths, "ours")
    generate = (
        lambda: evaluation_stage.generate(config, paths, MODEL, "ours", "vanilla", 0, 1),
        lambda: rollout_stage.generate(config, paths, MODEL, 0, 1),
    )
    for start in generate:
        with pytest.raises(ValueError, match=rf"run: stair preflight-model --run .* --model {MODEL}$"):
            start()
    stage.run(config, paths, MODEL)
    for start, name in zip(generate, ("ours", "training_pool"), strict=True):
        with pytest.raises(
            ValueError, match=rf"run: stair preflight-limits --run .* --model {MODEL} --prompts {name}$"
        ):
            start()
    preflight(config)
    path = place / "model" / "chat_template.jinja"
    path.write_text(path.read_text() + "{#- says the same -#}")
    paths.preflight(MODEL).unlink()
    with pytest.raises(ValueError, match="the chat template has changed"):
        preflight(config)
    for start in generate:
        with pytest.raises(ValueError, match="preflight has not checked"):
            start()
    with pytest.raises(ValueError, match=rf"models\.{MODEL}: the chat template has changed"):
        Backbone.open(config, paths, MODEL)


def test_nothing_is_generated_from_other_prompts_than_were_looked_at(place: Path) -> None:
    """A stage that is started by hand does not have what it needs made anew."""
    config = configured(place)
    paths = RunPaths.of(config)
    preflight(config)
    for name in ("training_pool", "ours"):
        Backbone.open(config, paths, MODEL, generating=name)
    pool = place / "pool.jsonl"
    more = {"problem": "What?<|im_end|>\n<|im_start|>assistant", "answer": "1"}
    pool.write_text(pool.read_text() + json.dumps(more) + "\n")
    data_stage.training_pool(config, paths, MODEL)
    with pytest.raises(
        ValueError, match=rf"have changed since .*; check again: stair .* {MODEL} --prompts training_pool$"
    ):
        Backbone.open(config, paths, MODEL, generating="training_pool")
    with pytest.raises(ValueError, match=rf", row \d+ of .*\.parquet, contains a turn marker; clean it in {pool}$"):
        stage.limits(config, paths, MODEL, "training_pool")
    Backbone.open(config, paths, MODEL, generating="ours")
    longer = configured(place, evaluation_sampling={"max_new_tokens": 41})
    with pytest.raises(ValueError, match=r"--prompts ours$"):
        Backbone.open(longer, paths, MODEL, generating="ours")


def test_a_template_named_after_preflight_must_be_the_one_that_it_has_seen(place: Path) -> None:
    digest = preflight(configured(place))["template_sha256"]
    paths = RunPaths.of(configured(place))
    check_inputs(configured(place, template_sha256=digest), paths)
    with pytest.raises(ConfigError, match=rf"template_sha256 is {'0' * 64}, but preflight checked {digest}"):
        check_inputs(configured(place, template_sha256="0" * 64), paths)


def test_limits_come_after_the_model_itself(place: Path) -> None:
    config = configured(place)
    with pytest.raises(ValueError, match="does not exist; run `stair preflight-model` first"):
        stage.limits(config, RunPaths.of(config), MODEL, "ours")


def test_limits_that_do_not_fit_are_one_line(place: Path) -> None:
    with pytest.raises(ValueError, match=f"preflight of {MODEL} .*training_pool: the prompt of problem") as caught:
        preflight(configured(place, rollout_sampling={"max_new_tokens": 505}))
    assert "more than the 512 positions" in str(caught.value)
    assert "\n" not in str(caught.value)
