"""From config.yaml, overlays and the command line to one configuration."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from stair.cli.main import main
from stair.config.model import Config
from stair.config.resolve import (
    ConfigError,
    dump,
    load_run,
    merge,
    resolve,
    unlike_its_overlay,
    validate,
    value_at,
    without_null,
)
from stair.records.files import write_text_if_changed

ROOT = Path(__file__).parents[2]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project's folder with the real configuration, to add overlays to."""
    shutil.copy(ROOT / "config.yaml", tmp_path)
    shutil.copytree(ROOT / "workflow/runs", tmp_path / "workflow/runs")
    return tmp_path


def overlay(project: Path, name: str, text: str) -> str:
    (project / "workflow/runs" / f"{name}.yaml").write_text(text)
    return name


@cache
def plain() -> dict[str, Any]:
    """The paper's settings as plain values."""
    return merge(yaml.safe_load(dump(resolve(ROOT, {"run": "paper"}))), {})


def paper(**changes: Any) -> dict[str, Any]:
    """The paper's settings as plain values, with changes merged in."""
    return without_null(merge(plain(), changes))


def test_the_paper_run_is_config_yaml_as_it_stands() -> None:
    config = resolve(ROOT, {"run": "paper"})
    assert config.run == "paper"
    assert list(config.models) == ["qwen3-4b-instruct", "qwen3.5-4b", "qwen3.5-9b"]
    assert config.controllers["stair"].layers == (3, 11, 19)
    assert config.controllers["stair"].optimizer.learning_rate == 0.003
    assert config.controllers["stair"].smoothing == 1e-6  # YAML 1.1 alone would read a text
    assert config.benchmarks["amc23"].exclude_ids == ("3", "15", "16", "19", "30", "32")


@pytest.mark.parametrize("run", sorted(path.stem for path in (ROOT / "workflow/runs").glob("*.yaml")))
def test_every_run_of_the_project_resolves_and_survives_the_disk(run: str, tmp_path: Path) -> None:
    config = resolve(ROOT, {"run": run})
    assert config.run == run
    folder = tmp_path / run
    folder.mkdir()
    path = folder / "config.resolved.yaml"
    assert write_text_if_changed(path, dump(config))
    assert load_run(folder) == config
    assert not write_text_if_changed(path, dump(load_run(folder))), "the same configuration has the same text"


def test_an_overlay_merges_mappings_replaces_lists_and_null_removes() -> None:
    base = {"a": {"x": 1, "y": [1, 2], "z": {"deep": 1}}, "b": 2, "c": 3}
    change = {"a": {"y": [3], "z": {"more": 2}}, "b": None, "d": {"new": None, "kept": 1}, "absent": None}
    assert without_null(merge(base, change)) == {
        "a": {"x": 1, "y": [3], "z": {"deep": 1, "more": 2}},
        "c": 3,
        "d": {"kept": 1},
    }
    assert base == {"a": {"x": 1, "y": [1, 2], "z": {"deep": 1}}, "b": 2, "c": 3}, "the base is as it was"


def test_null_gives_a_key_its_default_and_an_overlay_above_sets_it_again(project: Path) -> None:
    lower = overlay(project, "lower", "note: lower\ntraining_pool: {exclude_more: null, strip_suffixes: null}\n")
    upper = overlay(project, "upper", "extends: lower\ntraining_pool: {exclude_more: {qwen3.5-4b: [amc23]}}\n")
    assert resolve(project, {"run": lower}).training_pool.exclude_more == {}
    config = resolve(project, {"run": upper})
    assert config.training_pool.exclude_more == {"qwen3.5-4b": ("amc23",)}
    assert (config.training_pool.strip_suffixes, config.note, config.run) == ((), "lower", "upper")


MERGED = """
models:
  qwen3.5-4b: &first
    evaluation_sampling: &sampling {temperature: 0.5, top_p: 0.9, max_new_tokens: 100}
    rollout_sampling:
      <<: *sampling
      top_p: 0.8
  qwen3.5-9b:
    <<: [*first, {thinking: false, dtype: float32}]
    rollout_sampling: {<<: *sampling}
"""


def test_anchors_and_merge_keys_work(project: Path) -> None:
    """A mapping's own keys win over merged ones, and earlier merged mappings over later ones."""
    config = resolve(project, {"run": overlay(project, "merged", MERGED)})
    first, second = config.models["qwen3.5-4b"], config.models["qwen3.5-9b"]
    assert (first.rollout_sampling.temperature, first.rollout_sampling.top_p) == (0.5, 0.8)
    assert first.rollout_sampling.max_new_tokens == first.evaluation_sampling.max_new_tokens == 100
    assert second.evaluation_sampling == first.evaluation_sampling
    assert (second.rollout_sampling.top_p, second.thinking, second.dtype) == (0.9, False, "float32")


def test_an_overlay_whose_name_cannot_be_that_of_a_run_is_refused(project: Path, tmp_path: Path) -> None:
    path = tmp_path / "My run.yaml"
    path.write_text("extends: smoke\n")
    with pytest.raises(ConfigError, match=r"My run\.yaml: the file's name is that of the run"):
        resolve(project, {"run": str(path)})


def test_an_overlay_elsewhere_is_named_by_its_path(project: Path, tmp_path: Path) -> None:
    path = tmp_path / "my-own.yaml"
    path.write_text("extends: tiny\nnote: mine\n")
    config = resolve(project, {"run": str(path)})
    assert (config.run, config.note) == ("my-own", "mine")
    assert config.models["qwen3-4b-instruct"].path == "backbones/tiny-qwen3-4b"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("extends: circle\n", "circle.yaml: 'extends' forms a circle"),
        ("extends: nowhere\n", "run 'nowhere' does not exist"),
        ("extends: [paper]\n", "'extends' must name one run"),
        ("note: a\nnote: b\n", "the key 'note' stands twice (line 2)"),
        ("hub: {<<: {cache: a}, cache: b, cache: c}\n", "the key 'cache' stands twice (line 1)"),
        ("? [a, b]\n: 1\n", "found unhashable key"),
        ("note: 2026-13-45\n", "month must be in 1..12"),
        ("note: 2026-11-28\n", "'note': input should be a valid string (given: datetime.date(2026, 11, 28))"),
        ("note: " + "[" * 3000 + "]" * 3000, "lie too deep in each other"),
        ("- note\n", "must hold keys and values, not a list"),
        ("note: [\n", 'circle.yaml", line 2, column 1'),
        ("nowhere: 1\n", "unknown key 'nowhere'"),
        ("evalution:\n", "unknown key 'evalution' (did you mean 'evaluation'?)"),
        ("evaluation: {samples=8}\n", "unknown key 'evaluation.samples=8' (did you mean 'samples'?)"),
        ("run: other\n", "circle.yaml: an overlay cannot set 'run'"),
    ],
)
def test_an_overlay_that_cannot_be_used_is_one_line(project: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(project, {"run": overlay(project, "circle", text)})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_circle_of_two_is_found(project: Path) -> None:
    overlay(project, "one", "extends: two\n")
    with pytest.raises(ConfigError, match="forms a circle"):
        resolve(project, {"run": overlay(project, "two", "extends: one\n")})


def test_the_command_line_wins_and_its_nested_texts_become_typed() -> None:
    nested = {"optimizer": {"learning_rate": "2e-3", "eps": "1e-9"}, "smoothing": "0.5", "layers": ["7", "11"]}
    config = resolve(
        ROOT,
        {
            "run": "tiny",
            "transformers": {"batch_width": "3", "device": "cpu"},
            "controllers": {"stair": nested},
            "select": {"conditions": ["vanilla", "stair"]},
            "note": "null",
            "expensive": "true",
        },
    )
    stair = config.controllers["stair"]
    assert (config.transformers.batch_width, config.transformers.device, config.expensive) == (3, "cpu", True)
    assert (stair.optimizer.learning_rate, stair.optimizer.eps, stair.smoothing, stair.layers) == (
        2e-3,
        1e-9,
        0.5,
        (7, 11),
    )
    assert stair.optimizer.betas == (0.9, 0.999), "what is not named stays"
    assert (list(config.conditions), config.note) == (["vanilla", "stair"], None)


MODEL = "qwen3-4b-instruct"


MALFORMED: list[tuple[str, Any, str]] = [
    # Keys, types and ranges.
    ("nonsense", 1, "unknown key 'nonsense'"),
    ("evalution", {"samples": 4}, "unknown key 'evalution' (did you mean 'evaluation'?)"),
    ("controllers/stair/layrs", [3], "unknown key 'controllers.stair.layrs' (did you mean 'layers'?)"),
    ("controls/conditions/stair/contoller", "x", ".contoller' (did you mean 'controller'?)"),
    (f"models/{MODEL}/evaluation_sampling/top_q", 1, "sampling.top_q' (did you mean 'top_p'?)"),
    ("evaluation/samples", -1, "'evaluation.samples'"),
    ("evaluation/samples", 2.5, "'evaluation.samples'"),
    ("evaluation/samples", True, "'evaluation.samples'"),
    (
        "evaluation/samples",
        10**9,
        "'evaluation.samples': input should be less than or equal to 1000 (given: 1000000000)",
    ),
    (
        "evaluation/shards",
        10**9,
        "'evaluation.shards': input should be less than or equal to 1000 (given: 1000000000)",
    ),
    ("replay/analysis/folds", 1, "'replay.analysis.folds': input should be greater than or equal to 2 (given: 1)"),
    ("evaluation/seed", "", "'evaluation.seed'"),
    ("evaluation", 4, "'evaluation'"),
    ("rollouts/samples", 3, "'rollouts.samples'"),
    ("transformers/batch_width", None, "'transformers.batch_width' is missing"),
    ("transformers/cache_block", 8, "'transformers.cache_block': input should be a multiple of 32 (given: 8)"),
    ("transformers/device", "tpu", "'transformers.device'"),
    ("training/kl", float("inf"), "'training.kl': input should be a finite number (given: inf)"),
    (f"models/{MODEL}/evaluation_sampling/top_p", 0.0, f"'models.{MODEL}.evaluation_sampling.top_p'"),
    ("controllers/stair/layers", [3, -1], "'controllers.stair.layers.1'"),
    ("controllers/stair/layers", [3, 3], "'controllers.stair.layers': lists 3 twice"),
    ("conditions/Bad Key", {"label": "x"}, "'conditions.Bad Key'"),
    # A section by itself.
    (f"models/{MODEL}/path", "somewhere", "given: repository, path"),
    (f"models/{MODEL}/repository", None, "given: none"),
    (f"models/{MODEL}/label", "Qwen3.5-4B", f"'models': qwen3.5-4b.label is that of {MODEL} too"),
    ("conditions/native/label", "STAIR", "'conditions': stair.label is that of native too ('STAIR')"),
    ("controls/conditions/native/label", "STAIR", "'controls.conditions': stair.label is that of native"),
    ("training_pool/path", "pool.jsonl", "'training_pool': give exactly one of repository, path and tiny"),
    (
        "training_pool/subset",
        {"problems": 131},
        "training_pool.subset.problems: 131 problems are too few for 128 validation",
    ),
    ("training_pool/validation_problems", 3, "a validation session needs 4 distinct problems, or none"),
    ("benchmarks/math500", {"repository": None, "tiny": 8, "file": None}, "'benchmarks.math500': tiny needs `file`"),
    (
        "benchmarks/math500",
        {"repository": None, "tiny": 3},
        "benchmarks.math500.tiny: a session needs 4 distinct problems",
    ),
    ("benchmarks/amc23/rows", 3, "benchmarks.amc23.rows: a session needs 4 distinct problems, not 3"),
    ("prompts/math", "Solve.", "'prompts.math': must hold {problem} exactly once"),
    ("controllers/lora/layers", [3], "'controllers.lora': a controller of kind 'lora' has no layers"),
    ("controllers/lora/adapter", None, "a controller of kind 'lora' needs adapter"),
    ("controllers/lora_stair/optimizer", None, "a controller of kind 'lora_stair' needs optimizer"),
    ("conditions/vanilla/controller", "stair", "'conditions.vanilla': it has one turn"),
    # Names that are not configured.
    (f"models/{MODEL}/evaluation_changes/math5000", {}, "the benchmark 'math5000', which is not configured"),
    ("benchmarks/math500/prompt", "maths", "benchmarks.math500.prompt names the prompt 'maths'"),
    ("training_pool/exclude_more", {"gpt": ["amc23"]}, "training_pool.exclude_more names the model 'gpt'"),
    ("controllers/stair/models", ["gpt"], "controllers.stair.models names the model 'gpt'"),
    ("conditions/stair/controller", "qlora", "conditions.stair.controller names the controller 'qlora'"),
    ("conditions/native/first_turn", "zero", "conditions.native.first_turn names the condition 'zero'"),
    ("evaluation/engine_changes", {MODEL: {"gsm8k": "sglang"}}, "names the benchmark 'gsm8k'"),
    # Sections that contradict one another.
    ("benchmarks/odd", {"label": "Odd", "tiny": 8, "file": "odd.jsonl"}, "there are generated problems for math500, "),
    ("conditions/native_again/repeats", "vanilla", "must have the turns and first_turn of 'vanilla'"),
    ("conditions/stair_null/variant", "differential", "repeats 'native' with another controller"),
    ("conditions/native/benchmarks", ["math500"], "repeats 'native', which is not run for"),
    ("conditions/native/first_turn", "stair", "must name a condition of one turn, not 'stair'"),
    ("conditions/vanilla/benchmarks", ["amc23"], "reuses the first turns of 'vanilla', which is not run for"),
    ("evaluation/engine_changes", {MODEL: {"math500": "sglang"}}, "conditions.stair needs the Transformers engine"),
    ("controllers/stair/models", ["qwen3.5-4b"], "which is not trained"),
]


@pytest.mark.parametrize(("place", "value", "message"), MALFORMED)
def test_what_is_wrong_is_one_line_that_names_the_key(place: str, value: Any, message: str) -> None:
    for key in reversed(place.split("/")):
        value = {key: value}
    with pytest.raises(ConfigError) as caught:
        validate(paper(**value), "the configuration")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def integers(schema: Any) -> Iterator[dict[str, Any]]:
    """The integers of a JSON schema, wherever they are."""
    if isinstance(schema, dict) and schema.get("type") == "integer":
        yield schema
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from integers(part)


def test_every_integer_has_an_upper_bound() -> None:
    """A slip such as 1000000000 is refused at once, before a job that would not end."""
    found = list(integers(Config.model_json_schema()))
    assert len(found) > 2 and not [
        each for each in found if not each.keys() & {"maximum", "exclusiveMaximum", "enum", "const"}
    ]


def test_a_whole_comparison_may_run_on_another_engine() -> None:
    """Vanilla and Native on SGLang, where nothing of that model and benchmark reads a bank."""
    others = ["math500", "amc23", "gpqa_diamond"]
    changes = {
        "run": "paper",
        "evaluation": {"engine_changes": {"qwen3.5-4b": {"aime2025": "sglang"}}},
        "conditions": {
            "stair": {"benchmarks": others},
            "native_again": {"benchmarks": ["math500"]},
            "stair_null": {"benchmarks": ["math500"]},
        },
        "controls": None,
    }
    config = resolve(ROOT, changes)
    assert config.engine_for("qwen3.5-4b", "aime2025") == "sglang"
    assert config.engine_for("qwen3.5-4b", "math500") == config.engine_for("qwen3.5-9b", "aime2025") == "transformers"


def test_the_program_says_it_in_one_line_and_does_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "wrong.yaml").write_text("evaluation: {smaples: 4}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["stair", "config", "--run", "wrong.yaml", "--write"])
    with pytest.raises(SystemExit) as ended:
        main()
    told = capsys.readouterr()
    assert (ended.value.code, told.out) == (2, "")
    (line,) = told.err.splitlines()
    assert line.startswith("stair: error: ") and "unknown key 'evaluation.smaples' (did you mean 'samples'?)" in line
    assert [path.name for path in tmp_path.iterdir()] == ["wrong.yaml"]


def test_several_faults_are_told_together() -> None:
    with pytest.raises(ConfigError) as caught:
        validate(paper(evaluation={"samples": -1}, nonsense=1), "the configuration")
    assert "'evaluation.samples'" in str(caught.value)
    assert "unknown key 'nonsense'" in str(caught.value)


def test_one_key_of_the_configuration() -> None:
    config = resolve(ROOT, {"run": "tiny"})
    assert value_at(config, "sglang.device") == "cpu\n"
    assert value_at(config, "models.qwen3.5-4b.thinking") == "true\n", "a name can hold a dot"
    assert yaml.safe_load(value_at(config, "sglang")) == config.sglang.model_dump(mode="json")
    for key, message in (
        ("sglang.devise", "no key 'devise' in sglang"),
        ("sglang.device.x", "no key 'x' in device"),
        ("x", "no key 'x' in the configuration"),
        ("trainin.workers", r"did you mean 'training'\?"),
    ):
        with pytest.raises(ConfigError, match=message):
            value_at(config, key)


def test_settings_of_the_command_line_are_named_and_nothing_else() -> None:
    again = resolve(ROOT, {"run": "tiny", "evaluation": {"seed": "again"}, "results": "/elsewhere"})
    assert unlike_its_overlay(again, ROOT) == ["evaluation.seed: again"]
    assert unlike_its_overlay(again.model_copy(update={"run": "mine"}), ROOT) == []


def test_an_unknown_run_names_those_that_there_are() -> None:
    with pytest.raises(ConfigError, match=r"run 'papre' does not exist.*paper.*tiny"):
        resolve(ROOT, {"run": "papre"})


def test_an_overlay_here_is_named_with_its_ending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text("extends: tiny\n")
    with pytest.raises(ConfigError, match=r"name the file: mine\.yaml"):
        resolve(ROOT, {"run": "mine"})


def test_a_folder_without_a_resolved_configuration_says_what_to_do(tmp_path: Path) -> None:
    made = r"config\.resolved\.yaml; name a run's folder \(for example results/tiny\), or make it: stair reproduce --run RUN"
    with pytest.raises(ConfigError, match=rf"{tmp_path.name} is not a run's folder: it has no {made}"):
        load_run(tmp_path)
    (tmp_path / "file").touch()
    for name in ("file", "absent"):
        with pytest.raises(ConfigError, match=rf"{name} is not a folder, so it has no {made}"):
            load_run(tmp_path / name)


def test_the_configuration_of_another_version_names_the_file_and_the_remedy(tmp_path: Path) -> None:
    text = dump(resolve(ROOT, {"run": "tiny"}))
    (tmp_path / "config.resolved.yaml").write_text(text[: text.index("\nconditions:") + 1])
    with pytest.raises(
        ConfigError, match=r"yaml: 'conditions' is missing \(and \d+ more errors\); if the file was cut off"
    ):
        load_run(tmp_path)
    (tmp_path / "config.resolved.yaml").write_text(text + "expected_seconds: 9\n")
    line = r"config\.resolved\.yaml: unknown key 'expected_seconds'; .*write it again: stair config --write --run RUN"
    with pytest.raises(ConfigError, match=line):
        load_run(tmp_path)
    with pytest.raises(ConfigError, match=line):
        resolve(ROOT, {"run": str(tmp_path)})


def test_a_resolved_configuration_cannot_be_changed() -> None:
    config: Config = resolve(ROOT, {"run": "paper"})
    with pytest.raises(ValueError, match="frozen"):
        config.evaluation.samples = 2  # type: ignore[misc]
