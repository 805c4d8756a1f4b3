"""Files, columns, folders and layers are checked before any work."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.resolve import ConfigError, resolve
from stair.pipeline import input_checks
from stair.pipeline.input_checks import input_faults, refuse, start_faults
from stair.pipeline.job_inputs import checked_digests
from stair.records.manifest import Origin, write_manifest

ROOT = Path(__file__).parents[2]
MODEL = "qwen3-4b-instruct"


def checked(**changes: Any) -> Config:
    """The tiny run with changes, its inputs checked."""
    config = resolve(ROOT, {"run": "tiny", **changes})
    refuse(input_faults(config, RunPaths.of(config)))
    return config


def refused(**changes: Any) -> str:
    """The one line with which changes of the tiny run are refused."""
    with pytest.raises(ConfigError) as caught:
        checked(**changes)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def refused_resolution(**changes: Any) -> str:
    """The line with which the configuration itself is refused."""
    with pytest.raises(ConfigError) as caught:
        resolve(ROOT, {"run": "tiny", **changes})
    return str(caught.value)


def model_folder(folder: Path, model_type: str, layers: int = 16) -> Path:
    """A folder with the configuration of a model, as the hub's are."""
    folder.mkdir()
    keys = ("hidden_size", "num_attention_heads", "num_key_value_heads", "vocab_size", "max_position_embeddings")
    config = {"model_type": model_type, "num_hidden_layers": layers, **dict.fromkeys(keys, 64)}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def at(folder: Path, *numbers: int) -> dict[str, Any]:
    """One model, which lies in a local folder, with a controller at these layers."""
    return {
        "select": {"models": [MODEL]},
        "models": {MODEL: {"path": str(folder)}},
        **(layers(*numbers) if numbers else {}),
    }


def layers(*numbers: int) -> dict[str, Any]:
    return {"controllers": {"stair": {"layers": list(numbers)}}}


def test_the_tiny_run_passes() -> None:
    assert checked().controllers["stair"].layers == (3, 7, 11)


def test_a_model_folder_that_is_missing_or_empty(tmp_path: Path) -> None:
    assert f"models.{MODEL}.path: the model folder {tmp_path}/none does not exist" in refused(**at(tmp_path / "none"))
    (tmp_path / "empty").mkdir()
    assert "holds no model" in refused(**at(tmp_path / "empty"))


def test_a_layer_that_does_not_exist(tmp_path: Path) -> None:
    message = refused(**layers(3, 12))
    assert "controllers.stair.layers" in message
    assert f"{MODEL} has no layer 12; its 12 layers count from 0" in message
    folder = model_folder(tmp_path / "m", "qwen3")
    assert checked(**at(folder, 0, 15)).controllers["stair"].layers == (0, 15)
    assert "no layer 16; its 16 layers" in refused(**at(folder, 0, 16))


def test_a_replayed_layer_without_reads(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "q", "qwen3")
    assert "replay.layers: qwen3-4b-instruct has no layer 16" in refused(**at(folder, 0), replay={"layers": [16]})
    assert "replay.layers: layer 15 of qwen3-4b-instruct is its last" in refused(
        **at(folder, 0), replay={"layers": [15]}
    )
    hybrid = model_folder(tmp_path / "h", "qwen3_5_text")
    message = refused(**at(hybrid, 3), replay={"layers": [3, 4]})
    assert "replay.layers: layer 4 of qwen3-4b-instruct is not full attention (those are [3, 7, 11, 15])" in message
    message = refused(**at(hybrid, 3), replay={"layers": [3], "analysis": {"reported_layer": 8}})
    assert "replay.analysis.reported_layer: layer 8 of qwen3-4b-instruct is not full attention" in message
    assert "'replay.layers': lists 3 twice" in refused_resolution(replay={"layers": [3, 3]})
    assert f"'replay.models': lists '{MODEL}' twice" in refused_resolution(replay={"models": [MODEL, MODEL]})


def test_a_layer_that_is_not_full_attention(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "m", "qwen3_5_text")
    checked(**at(folder, 3, 15))
    message = refused(**at(folder, 3, 14))
    assert f"controllers.stair.layers: layer 14 of {MODEL} is not full attention" in message
    assert "[3, 7, 11, 15]" in message


def test_layers_of_a_fetched_model_are_checked_too(tmp_path: Path) -> None:
    config = resolve(ROOT, {"run": "paper", "results": str(tmp_path), "hub": {"cache": str(tmp_path)}, **layers(3, 40)})
    refuse(input_faults(config, RunPaths.of(config)))  # nothing is fetched yet, so nothing is known yet
    folder = RunPaths.of(config).model_folder(config, MODEL)
    folder.parent.mkdir(parents=True)
    model_folder(folder, "qwen3", layers=36)
    with pytest.raises(ConfigError, match="has no layer 40"):
        refuse(input_faults(config, RunPaths.of(config)))


def test_a_model_of_an_unknown_architecture(tmp_path: Path) -> None:
    assert "unknown model_type 'gpt2'" in refused(**at(model_folder(tmp_path / "m", "gpt2")))


def benchmark(path: Path, **changes: Any) -> dict[str, Any]:
    return {"benchmarks": {"math500": {"tiny": None, "path": str(path), **changes}}}


def test_a_benchmark_file_without_a_column(tmp_path: Path) -> None:
    rows = [{"problem": f"1 + {number}?", "solution": "2", "unique_id": f"a{number}"} for number in range(4)]
    files = {
        "parquet": lambda path: pq.write_table(pa.Table.from_pylist(rows), path),
        "jsonl": lambda path: path.write_text("".join(json.dumps(row) + "\n" for row in rows)),
        "csv": lambda path: path.write_text(
            "\n".join(["problem,solution,unique_id", *(",".join(row.values()) for row in rows)])
        ),
    }
    for suffix, write in files.items():
        path = tmp_path / f"bench.{suffix}"
        write(path)
        message = refused(**benchmark(path))
        assert f"benchmarks.math500.path: {path} has no column 'answer'" in message
        assert "problem, solution, unique_id" in message
        checked(**benchmark(path, columns={"answer": "solution"}))


@pytest.mark.parametrize("name", ["~/x", "a{b}", "a}b", "a\nb"])
def test_a_path_that_would_be_read_as_something_else(name: str) -> None:
    for key, changes in {
        "results": {"results": name},
        "hub.cache": {"hub": {"cache": name}},
        f"models.{MODEL}.path": {"models": {MODEL: {"path": name}}},
        "benchmarks.math500.path": benchmark(Path(name)),
        "training_pool.path": {"training_pool": {"tiny": None, "path": name}},
    }.items():
        assert refused(**changes).startswith(f"{key}: '{name[0]}")


@pytest.mark.parametrize("name", ["", "results/tiny/tables"])
def test_a_results_folder_that_cannot_be_written(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o555)
    code = (
        "import sys; from pathlib import Path; from stair.config.paths import RunPaths; "
        "from stair.config.resolve import resolve; from stair.pipeline.input_checks import input_faults, refuse, start_faults; "
        "from tests.privileges import give_up_capabilities; give_up_capabilities(); "
        "refuse(start_faults(resolve(Path(), {'run': 'tiny'}), RunPaths(Path(sys.argv[1]))))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "results" / "tiny")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    folder.chmod(0o755)
    assert f"results: {folder} cannot be written; make it writable, or set `results`" in done.stderr


def test_a_model_that_another_run_made_has_the_other_runs_manifest(tmp_path: Path) -> None:
    """Its manifest names it relative to that run; in its own run, it shows damage."""
    config, weights = checked(), tmp_path / "one/backbones/m/model.safetensors"
    weights.parent.mkdir(parents=True)
    weights.write_bytes(b"weights")
    write_manifest(
        tmp_path / "one", [weights.parent], rule="backbone", wildcards={}, origin=Origin.now({}, {}, "0" * 64)
    )
    checked_digests(config, RunPaths(tmp_path / "two"), [weights])
    checked_digests(config, RunPaths(tmp_path / "one"), [weights])
    weights.write_bytes(b"others")
    checked_digests(config, RunPaths(tmp_path / "two"), [weights])
    with pytest.raises(
        ValueError,
        match=r"m/model\.safetensors does not match its sealed checksum; to make it again: rm \S+/one/backbones/m",
    ):
        checked_digests(config, RunPaths(tmp_path / "one"), [weights])


def test_a_row_that_cannot_be_used_is_named_before_any_work(tmp_path: Path) -> None:
    path = tmp_path / "bench.jsonl"
    for answers, message in (
        (["1", "2", "3", None], f"{path}, line 4: the answer is empty"),
        (["1", "2", "3", "x", "5"], f"{path}, problem 3: its answer is not an integer; set `kind: math`"),
        (["1", "2", "3"], f"a session needs 4 distinct problems, and {path} has 3"),
    ):
        rows = [{"problem": f"1 + {number}?", "answer": answer} for number, answer in enumerate(answers)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        said = refused(**benchmark(path, kind="integer", columns={"id": None}))
        assert said.startswith(f"benchmarks.math500.path: {message}")


def test_a_file_that_is_not_there_or_not_readable(tmp_path: Path) -> None:
    assert "does not exist" in refused(**benchmark(tmp_path / "none.jsonl"))
    (tmp_path / "bench.xlsx").write_text("x")
    assert "files of type '.xlsx' cannot be read (known: .parquet, .jsonl, .csv)" in refused(
        **benchmark(tmp_path / "bench.xlsx")
    )
    (tmp_path / "bench.parquet").write_text("x")
    assert "is not a Parquet file" in refused(**benchmark(tmp_path / "bench.parquet"))
    (tmp_path / "bench.jsonl").write_text("{\n")
    assert "line 1: not valid JSON" in refused(**benchmark(tmp_path / "bench.jsonl"))
    (tmp_path / "bench.csv").write_text("problem,answer\n")
    assert "has no rows" in refused(**benchmark(tmp_path / "bench.csv"))


def test_a_model_folder_with_two_sets_of_weights(tmp_path: Path) -> None:
    """Transformers reads model.safetensors, SGLang the shards of the index."""
    folder = model_folder(tmp_path / "m", "qwen3", layers=36)
    index = folder / "model.safetensors.index.json"
    for name in ("model.safetensors", "model-00001-of-00001.safetensors"):
        (folder / name).touch()
        index.write_text(json.dumps({"weight_map": {"lm_head.weight": name}}))
        if name == "model.safetensors":
            checked(**at(folder))
    assert refused(**at(folder)) == (
        f"{folder} has two sets of weights, model.safetensors and the files that model.safetensors.index.json names, and "
        "loaders differ in which one they read; delete one of them"
    )
    (folder / "model.safetensors").unlink()
    checked(**at(folder))


def test_a_training_pool_without_a_column(tmp_path: Path) -> None:
    path = tmp_path / "pool.jsonl"
    path.write_text(json.dumps({"prompt": [{"content": "1 + 1?"}], "answer": "2"}) + "\n")
    message = refused(training_pool={"tiny": None, "path": str(path)})
    assert f"training_pool.path: {path} has no column 'reward_model'" in message


def test_what_sglang_cannot_draw_is_refused_before_anything_runs() -> None:
    checked(rollouts={"engine": "sglang"})  # the tiny hybrids have the other engine
    found = refused(rollouts={"engine": "sglang"}, models={MODEL: {"rollout_sampling": {"min_p": 0.1}}})
    assert found.startswith(f"models.{MODEL}.rollout_sampling: min_p is 0.1")
    found = refused(rollouts={"engine": "sglang"}, models={"qwen3.5-4b": {"rollout_engine": "sglang"}})
    assert found.startswith("models.qwen3.5-4b: SGLang on cpu runs qwen3, not qwen3_5")
    found = refused(
        select={"conditions": ["vanilla"]},
        evaluation={"engine_changes": {MODEL: {"aime2025": "sglang"}}},
        models={MODEL: {"evaluation_sampling": {"min_p": 0.1}}},
    )
    assert found.startswith(f"models.{MODEL}.evaluation_sampling, on aime2025: min_p is 0.1")


def test_sglangs_environment_is_asked_for_only_where_responses_are_to_be_made(tmp_path: Path) -> None:
    common: dict[str, Any] = {"sglang": {"environment": str(tmp_path / "none")}, "results": str(tmp_path)}
    trained = checked(rollouts={"engine": "sglang"}, **common)
    asked = checked(
        evaluation={"engine": "sglang"}, select={"conditions": ["vanilla"], "models": [MODEL]}, controls=None, **common
    )
    paths = RunPaths.of(trained)
    answered = [paths.responses(*pair, "vanilla") for pair in asked.evaluated("vanilla")]
    for config, outputs in ((trained, [paths.rollouts(MODEL)]), (asked, answered)):
        with pytest.raises(ConfigError, match="make sglang-env"):
            refuse(start_faults(config, paths))
        for output in outputs:
            output.parent.mkdir(parents=True, exist_ok=True)
            output.touch()
        refuse(start_faults(config, paths))


def test_a_run_that_would_train_a_hybrid_on_a_gpu_without_its_kernels_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rollouts would be generated first, which takes days."""
    monkeypatch.setattr(input_checks, "visible_gpus", lambda: ["0"])

    def check(**changes: Any) -> RunPaths:
        settings = {"rollouts": {"engine": "transformers"}, "evaluation": {"engine": "transformers"}}
        config = resolve(ROOT, {"run": "paper", "results": str(tmp_path), **settings, **changes})
        refuse(start_faults(config, paths := RunPaths.of(config)))
        return paths

    with pytest.raises(
        ConfigError, match=r"^training: qwen3\.5-4b has linear attention.*allow_torch_recurrence: true$"
    ):
        check()
    check(select={"models": [MODEL]})
    check(transformers={"device": "cpu", "attention": "sdpa"})
    paths = check(training={"allow_torch_recurrence": True})
    for model in ("qwen3.5-4b", "qwen3.5-9b"):
        for controller in ("stair", "bank_free"):
            paths.controller(model, controller).mkdir(parents=True)
    check()


def test_local_files_of_the_project_are_found_from_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = resolve(ROOT, {"run": "tiny"})
    refuse(input_faults(config, RunPaths.of(config)))
    missing = resolve(ROOT, {"run": "tiny", "models": {MODEL: {"path": "backbones/none"}}})
    with pytest.raises(ConfigError, match=r"path: the model folder backbones/none does not exist"):
        refuse(input_faults(missing, RunPaths.of(missing)))
