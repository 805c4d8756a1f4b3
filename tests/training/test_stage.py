"""A training on a run's folder: what it writes, what it refuses, several workers, and being killed."""

from __future__ import annotations

import csv
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from stair.cli.job import run_job
from stair.config.paths import START, RunPaths
from stair.config.resolve import ConfigError, load_run
from stair.config.training import CONTROLLER_FILES
from stair.method import BankFree, Reflector, load_adapter, load_controller
from stair.models.load import load_model
from stair.records.gpus import VISIBLE, own_gpus
from stair.stages.training import stage
from tests.by_hand import by_hand
from tests.sealed import seal
from tests.training.small_run import MODEL, UPDATES, make_run, surroundings, train, train_command
from tests.training.training_cases import KINDS, student_of

Make = Callable[..., RunPaths]


@pytest.fixture(scope="module")
def make(small_model: Callable[..., PreTrainedModel], small_tokenizer: Callable[..., PreTrainedTokenizerFast]) -> Make:
    return lambda folder, changes=None: make_run(folder, small_model(), small_tokenizer(), changes or {})


@pytest.fixture(scope="module")
def trained(make: Make, tmp_path_factory: pytest.TempPathFactory) -> RunPaths:
    """All four controllers, trained here."""
    paths = make(tmp_path_factory.mktemp("trained"))
    for kind in KINDS:
        run(paths, kind)
    return paths


def curve_of(paths: RunPaths, controller: str) -> list[dict[str, str]]:
    with open(paths.controller(MODEL, controller) / "curve.csv") as handle:
        return list(csv.DictReader(handle))


def weights_of(paths: RunPaths, controller: str) -> dict[str, torch.Tensor]:
    folder = paths.controller(MODEL, controller)
    return {
        f"{path.name}:{name}": tensor
        for path in sorted(folder.glob("*.safetensors"))
        for name, tensor in load_file(path).items()
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_trained_controller_is_its_files_and_they_load_in_one_line(trained: RunPaths, kind: str) -> None:
    folder = trained.controller(MODEL, kind)
    assert {path.name for path in folder.iterdir()} == {*CONTROLLER_FILES[kind], "folder.manifest.json"}
    manifest = json.loads((folder / "folder.manifest.json").read_text())
    if kind != "lora":
        controller = load_controller(folder)
        assert isinstance(controller, BankFree if kind == "bank_free" else Reflector)
        assert controller.weights.dtype == torch.float32
    if "lora" in kind:
        model = load_model(trained.folder.parent / "model", dtype=torch.float32, device="cpu")
        before = model(torch.arange(30, 40)[None]).logits
        adapted = load_adapter(model, folder)
        assert (adapted(torch.arange(30, 40)[None]).logits - before).abs().max() > 1e-5
        with adapted.disable_adapter():
            assert torch.equal(adapted(torch.arange(30, 40)[None]).logits, before)
        settings = json.loads((folder / "adapter_config.json").read_text())
        assert (settings["r"], settings["lora_alpha"], settings["lora_dropout"], settings["bias"]) == (
            2,
            4,
            0.0,
            "none",
        )
        assert str(trained.folder) not in (folder / "adapter_config.json").read_text()
        assert settings["target_modules"] == sorted(settings["target_modules"]), "not as a process keeps its sets"
        assert settings["peft_version"] == metadata.version("peft")
    assert manifest["parameters"] == sum(tensor.numel() for tensor in weights_of(trained, kind).values())
    text = (folder / "README.md").read_text()
    assert f"tags: [stair, {kind}]" in text
    reads = kind in ("stair", "lora_stair")
    assert manifest["auxiliary_positions"] == ({"context": 512, "beyond": 0} if reads else None)
    assert ("- auxiliary positions beyond the context of 512: 0\n" in text) == reads
    assert (f"read by PEFT {metadata.version('peft')} " in text) == ("lora" in kind)
    assert ("load_adapter" in text, "load_controller" in text) == ("lora" in kind, kind != "lora")


@pytest.mark.parametrize("kind", KINDS)
def test_the_curve_has_a_line_an_update_and_the_validation_loss_where_it_was_measured(
    trained: RunPaths, kind: str
) -> None:
    curve = curve_of(trained, kind)
    assert [int(row["update"]) for row in curve] == list(range(UPDATES + 1))
    assert [int(row["update"]) for row in curve if row["validation_loss"]] == [0, 4, 8, 10]
    for row in curve[1:]:
        assert float(row["cross_entropy"]) > 0.0
        assert float(row["kl"]) > -1e-6
        assert float(row["tokens_per_second"]) > 0.0
        assert float(row["peak_memory_mib"]) > 50.0
        assert int(row["responses"]) == 6
        assert row["beyond_context"] == ("0" if kind in ("stair", "lora_stair") else "")
    measured = json.loads((trained.controller(MODEL, kind) / "folder.manifest.json").read_text())["objective"]
    assert measured["training"]["sessions"] == measured["validation"]["sessions"] > 0
    assert measured["validation"]["after"]["loss"] == pytest.approx(float(curve[-1]["validation_loss"]))


def test_the_objective_has_the_configured_coefficients_and_epochs(make: Make, tmp_path: Path) -> None:
    paths = make(tmp_path, {"training": {"cross_entropy": 0.5, "kl": 3.0, "epochs": 2, "sessions_per_update": 8}})
    run(paths)
    assert [row["sessions"] for row in curve_of(paths, "stair")] == ["", "8", "8", "4", "8", "8", "4"]
    before = json.loads((paths.controller(MODEL, "stair") / "folder.manifest.json").read_text())["objective"][
        "training"
    ]["before"]
    assert before["loss"] == pytest.approx(0.5 * before["cross_entropy"] + 3.0 * before["kl"], rel=1e-6)
    assert before["kl"] > 1e-6


GOLDEN = Path(__file__).parent / "golden_losses.json"


def test_losses_are_the_golden_ones(trained: RunPaths) -> None:
    """A change that is not about numbers leaves every curve where it was. STAIR_GOLDEN=1 writes them anew."""
    columns = ("loss", "cross_entropy", "kl", "gradient_norm", "validation_loss")
    found = {
        kind: [{name: float(row[name]) for name in columns if row[name]} for row in curve_of(trained, kind)]
        for kind in KINDS
    }
    if os.environ.get("STAIR_GOLDEN"):
        GOLDEN.write_text(json.dumps(found, indent=1) + "\n")
    for kind, lines in json.loads(GOLDEN.read_text()).items():
        for update, (line, expected) in enumerate(zip(found[kind], lines, strict=True)):
            # Processors round differently; what a mistake changes is a hundred times as large.
            assert line == pytest.approx(expected, rel=2e-3, abs=2e-5), (kind, update)


def test_the_figure_draws_every_controllers_curve(trained: RunPaths, tmp_path: Path) -> None:
    from stair.paper.figures.figure import write
    from stair.paper.labels import Labels
    from stair.paper.make import build_figure

    config = load_run(trained.folder)
    figure = build_figure(config, trained, f"training_{MODEL}")
    drawn = {(value.condition, value.turn, value.metric): value.value for value in figure.values}
    for kind in KINDS:
        for row in curve_of(trained, kind):
            for metric in ("loss", "validation_loss"):
                place = (kind, f"update {row['update']}", metric)
                assert drawn.get(place) == (float(row[metric]) if row[metric] else None)
    write(figure, Labels.of(config), lambda suffix: tmp_path / f"figure{suffix}")
    first = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    again = build_figure(config, trained, f"training_{MODEL}")
    write(again, Labels.of(config), lambda suffix: tmp_path / f"figure{suffix}")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == first
    assert set(first) == {"figure.csv", "figure.pdf", "figure.png"}


DOUBLE = {
    "models": {MODEL: {"dtype": "float64"}},
    "controllers": {"lora_stair": {"adapter": {"optimizer": {"eps": 1e-5}}}},
}


def test_two_workers_are_one(make: Make, tmp_path: Path) -> None:
    """Ten updates of all parts, the sessions of each shared between two processes (gloo).

    The backbone is in FP64, and the adapter's epsilon is larger: where a gradient is as small as AdamW's
    usual epsilon, the last bit of a sum in it moves the weight by a part of the whole learning rate.
    """
    one, two, kind = make(tmp_path / "one", DOUBLE), make(tmp_path / "two", DOUBLE), "lora_stair"
    run(one, kind)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(listening.getsockname()[1])}
    workers = [multiprocessing.get_context("fork").Process(target=work, args=(two, kind, shared, n)) for n in "01"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(100)
    assert [worker.exitcode for worker in workers] == [0, 0]
    found, expected = weights_of(two, kind), weights_of(one, kind)
    assert found.keys() == expected.keys()
    for name, tensor in found.items():
        assert float((tensor - expected[name]).abs().max()) < 1e-6, name
    for mine, yours in zip(curve_of(one, kind), curve_of(two, kind), strict=True):
        assert (mine["responses"], mine["tokens"]) == (yours["responses"], yours["tokens"])
        for column in ("loss", "cross_entropy", "gradient_norm", "validation_loss"):
            assert (mine[column] == "") == (yours[column] == "")
            if mine[column]:
                assert float(mine[column]) == pytest.approx(float(yours[column]), rel=1e-5)


def work(paths: RunPaths, controller: str, environment: dict[str, str], rank: str) -> None:
    """What each process of torchrun does."""
    os.environ |= {**environment, "RANK": rank, "LOCAL_RANK": rank}
    os.environ.pop(START, None)
    names = {"model": MODEL, "controller": controller}
    run_job(load_run(paths.folder), paths, "train_controller", names, [], [paths.weights(MODEL, controller)], 1)


def newest(folder: Path) -> int:
    """The update of the newest checkpoint."""
    return max((int(path.stem.split("-")[1]) for path in folder.glob("update-*.safetensors")), default=0)


def interrupted(paths: RunPaths, controller: str, number: int) -> tuple[int, str]:
    """Sends a signal two updates on into a training; its exit code and what it said."""
    folder = paths.work("training", MODEL, controller)
    before = newest(folder)
    child = subprocess.Popen(
        train_command(paths, controller),
        cwd=paths.folder,
        env=surroundings(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    deadline = time.monotonic() + 120
    while newest(folder) < before + 2:
        assert child.poll() is None, child.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.002)
    child.send_signal(number)
    return child.wait(60), child.communicate()[0]


def test_several_workers_hold_a_gpu_each(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command has their locks when it becomes torchrun, so no other job uses these GPUs."""

    class Becomes(BaseException):
        pass

    def become(program: Path, words: list[str]) -> None:
        mine = os.environ[VISIBLE]
        os.environ[VISIBLE] = ",".join(names)
        with own_gpus(1) as left:  # as another job of this machine
            raise Becomes(words[words.index("--nproc-per-node") + 1], mine, *left)

    names = [f"{name}-{os.getpid()}" for name in "abc"]
    monkeypatch.setenv(VISIBLE, ",".join(names))
    monkeypatch.setattr(os, "execv", become)
    monkeypatch.delenv(START, raising=False)
    paths = make(tmp_path, {"training": {"workers": 2}, "transformers": {"device": "cuda"}})
    config, names_of_job = load_run(paths.folder), {"model": MODEL, "controller": "stair"}
    with pytest.raises(Becomes) as became:
        run_job(config, paths, "train_controller", names_of_job, [], [paths.weights(MODEL, "stair")], 1)
    assert became.value.args == ("2", ",".join(names[:2]), names[2])


def test_a_finished_controller_is_not_trained_again(
    trained: RunPaths, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(START, raising=False)
    folder = trained.controller(MODEL, "stair")
    before = {file: file.stat().st_mtime_ns for file in folder.iterdir()}
    by_hand("train-controller", "--run", str(trained.folder), "--model", MODEL, "--controller", "stair")
    assert capsys.readouterr().out == f"{folder} is already trained; to train it again, delete this folder first\n"
    assert {file: file.stat().st_mtime_ns for file in folder.iterdir()} == before


@pytest.mark.faults
@pytest.mark.parametrize("kind", ["stair", "lora_stair"])
def test_killed_and_resumed_the_weights_are_the_same_bits(
    trained: RunPaths, make: Make, tmp_path: Path, kind: str
) -> None:
    paths = make(tmp_path)
    code, _ = interrupted(paths, kind, signal.SIGKILL)
    assert code == -signal.SIGKILL
    code, said = interrupted(paths, kind, signal.SIGTERM)
    assert code == 75
    assert "what was finished is kept" in said
    latest = max(paths.work("training", MODEL, kind).glob("update-*.safetensors"))
    latest.write_bytes(latest.read_bytes()[:-7])  # a torn newest one: the one before it is taken
    done = train(paths, kind)
    assert "resuming after update" in done.stdout
    found, expected = weights_of(paths, kind), weights_of(trained, kind)
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    timed = ("tokens_per_second", "peak_memory_mib")
    ours, theirs = (
        [{key: value for key, value in row.items() if key not in timed} for row in curve_of(each, kind)]
        for each in (paths, trained)
    )
    assert ours == theirs
    assert not list(paths.work("training", MODEL, kind).glob("update-*"))


def test_a_checkpoint_of_other_settings_is_not_taken(make: Make, tmp_path: Path) -> None:
    from stair.stages.training.checkpoint import Checkpoint, Checkpoints

    state = {"normals": torch.randn(3, 2)}
    ours, others = Checkpoints(tmp_path, "ours"), Checkpoints(tmp_path, "others")
    for update in (1, 2, 3):
        ours.save(Checkpoint(update, state, {"curve": []}))
    assert [path.name for path in sorted(tmp_path.iterdir())] == [
        "update-000002.safetensors",
        "update-000003.safetensors",
    ]
    found = ours.newest()
    assert found is not None
    assert (found.update, found.facts) == (3, {"curve": []})
    assert torch.equal(found.tensors["normals"], state["normals"])
    assert others.newest() is None
    path = tmp_path / "update-000003.safetensors"
    changed = bytearray(path.read_bytes())
    changed[-1] ^= 1
    path.write_bytes(changed)
    found = ours.newest()
    assert found is not None
    assert found.update == 2


def altered(path: Path, change: Callable[[list[dict[str, Any]]], None]) -> None:
    """Changes rows of a table."""
    table = pq.read_table(path)
    rows = table.to_pylist()
    change(rows)
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)


def run(paths: RunPaths, controller: str = "stair") -> None:
    config = load_run(paths.folder)
    facts = stage.train(config, paths, MODEL, controller)
    seal(paths, "train_controller", paths.controller(MODEL, controller), **(facts or {}))
    stage.end(config, paths, MODEL, controller)


def test_the_curve_lies_beside_the_checkpoints_during_training(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = make(tmp_path)
    folder, lines = paths.work("training", MODEL, "stair"), []
    save = stage._TrainingRun._save_checkpoint

    def saved(run: stage._TrainingRun, update: int) -> None:
        save(run, update)
        lines.append(len((folder / "curve.csv").read_text().splitlines()))

    monkeypatch.setattr(stage._TrainingRun, "_save_checkpoint", saved)
    run(paths)
    assert lines == [update + 2 for update in range(UPDATES + 1)], "a header and the updates from 0"
    assert not list(folder.iterdir())


def test_a_token_outside_the_vocabulary_is_refused_with_its_row(make: Make, tmp_path: Path) -> None:
    paths = make(tmp_path)
    altered(paths.rollouts(MODEL), lambda rows: rows[9]["response_ids"].__setitem__(1, 300))
    with pytest.raises(
        ValueError, match=r"rollouts.*: response r02, sample 1: token 300 is outside the vocabulary of 300"
    ):
        run(paths)


def test_a_session_of_equal_problems_is_refused_with_its_row(make: Make, tmp_path: Path) -> None:
    paths = make(tmp_path)
    altered(paths.training_sessions(MODEL), lambda rows: rows[6].update(problem_id=rows[4]["problem_id"]))
    with pytest.raises(ValueError, match=r"session s-\S+, turn 3 repeats the problem p\d+"):
        run(paths)


def test_a_warm_up_as_long_as_the_training_is_refused(make: Make, tmp_path: Path) -> None:
    paths = make(tmp_path, {"controllers": {"lora": {"adapter": {"warmup_updates": 10}}}})
    with pytest.raises(ConfigError, match=r"controllers\.lora\.adapter\.warmup_updates.*\(10 updates\)"):
        run(paths, "lora")


def test_a_hybrid_without_its_kernels_is_not_trained_on_a_gpu(
    small_model: Callable[..., PreTrainedModel],
    small_tokenizer: Callable[..., PreTrainedTokenizerFast],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Unless a key says so; found before the sessions are read."""
    monkeypatch.setattr(stage, "local_device", lambda _: "cuda:0")
    monkeypatch.setattr(stage, "recorded_sessions", lambda *_: {})
    refused = "make env DEVICE=cuda`, or set training.allow_torch_recurrence: true$"
    for allowed, said in ((False, refused), (True, "no sessions$")):
        changes = {"training": {"allow_torch_recurrence": allowed}}
        paths = make_run(tmp_path / str(allowed), small_model("qwen3_5"), small_tokenizer(), changes)
        with pytest.raises(ValueError, match=said):
            run(paths)


def test_a_controller_or_condition_that_no_entry_asks_for_is_refused(trained: RunPaths) -> None:
    run, place = ("--run", str(trained.folder)), ("--model", MODEL, "--benchmark", "aime2025")
    with pytest.raises(ValueError, match=r"the run has no controller 'nobody' \(it has: stair, "):
        by_hand("train-controller", *run, "--model", MODEL, "--controller", "nobody")
    with pytest.raises(ValueError, match=r"the run has no condition 'nobody' \(it has: vanilla, "):
        by_hand("evaluation-shard", *run, *place, "--condition", "nobody")


def test_two_seeds_are_two_entries(make: Make, trained: RunPaths, tmp_path: Path) -> None:
    base = load_run(trained.folder).controllers["stair"].model_dump(mode="json")
    paths = make(tmp_path, {"controllers": {"again": base | {"seed": "second"}}})
    run(paths, "again")
    folders = trained.controller(MODEL, "stair"), paths.controller(MODEL, "again")
    one, other = (load_controller(folder).weights for folder in folders)
    assert (one - other).abs().max() > 0.05


def test_kinds_of_one_seed_start_from_the_same_values(small_model: Callable[..., PreTrainedModel]) -> None:
    """As docs/open_choices.md says: `stair` and `lora_stair` share normals, `lora` and `lora_stair` an adapter."""

    def drawn(kind: str, part: str) -> dict[str, torch.Tensor]:
        with student_of(small_model(), kind, torch.float32, seed="first") as student:
            named = student.parts()[part].items()
            return {name: each.detach().clone() for name, each in named if "lora_B" not in name}

    for part, alone in (("controller", "stair"), ("adapter", "lora")):
        ours, joint = drawn(alone, part), drawn("lora_stair", part)
        assert ours.keys() == joint.keys()
        assert all(torch.equal(values, joint[name]) for name, values in ours.items())


def test_initial_values_are_the_seeds(small_model: Callable[..., PreTrainedModel]) -> None:
    """Of normals and of the adapter alike: another seed is another draw, whatever order sessions come in."""

    def drawn(seed: str) -> dict[str, torch.Tensor]:
        with student_of(small_model(), "lora_stair", torch.float32, seed=seed) as student:
            found = {
                part + name: each.detach().clone()
                for part in student.parts()
                for name, each in student.parts()[part].items()
            }
        return {name: each for name, each in found.items() if "lora_B" not in name}

    first, again, second = drawn("first"), drawn("first"), drawn("second")
    assert len(first) == 1 + 7 * 4
    for name, values in first.items():
        assert torch.equal(values, again[name]), name
        assert not torch.isclose(values, second[name]).any(), name
