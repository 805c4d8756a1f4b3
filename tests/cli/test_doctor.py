"""`stair doctor`: the real command, here and under conditions that users meet."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml

from stair.cli.doctor import _outputs
from stair.cli.main import app
from stair.config.paths import RunPaths
from stair.config.resolve import ConfigError, resolve
from stair.pipeline.plan import Planner
from tests.models.hub_server import Hub, Repository, serving
from tests.models.test_fetch import NEW, fetch, run_folder
from tests.programs import needs

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
CODE = "import sys; from stair.cli import main\ntry: main()\nfinally: assert 'torch' not in sys.modules"
GIVE_UP = "from tests.privileges import give_up_capabilities; give_up_capabilities()"
QWEN35 = {"model_type": "qwen3_5_text", "num_hidden_layers": 20, "hidden_size": 8, "num_attention_heads": 2}
QWEN35 |= {"num_key_value_heads": 1, "vocab_size": 8, "max_position_embeddings": 64, "intermediate_size": 8}
QWEN35 |= {f"linear_{name}": 2 for name in ("num_key_heads", "key_head_dim", "num_value_heads", "value_head_dim")}


def doctor(*words: str, cwd: Path = ROOT, code: int = 0, **changes: str) -> list[dict[str, str]]:
    """The findings of the command; `changes` are environment variables."""
    run = in_process_of_its_own if any(name.startswith("HF_") for name in changes) else here
    ended, output = run(("doctor", *words, "--json"), cwd, changes)
    assert ended == code, output
    content: dict[str, Any] = json.loads(output)
    findings: list[dict[str, str]] = content["findings"]
    assert sum(content["counts"].values()) == len(findings)
    assert all(finding["remedy"] for finding in findings if finding["level"] != "ok")
    assert (content["counts"]["error"] > 0) == (code == 1)
    return findings


def in_process_of_its_own(words: tuple[str, ...], cwd: Path, changes: dict[str, str]) -> tuple[int, str]:
    """The library of the hub reads its variables when it is imported. The command imports no torch."""
    shell = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "STAIR_"))}
    command = [sys.executable, "-c", CODE, *words]
    done = subprocess.run(
        command, cwd=cwd, env=shell | changes, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout or done.stderr


def here(words: tuple[str, ...], cwd: Path, changes: dict[str, str]) -> tuple[int, str]:
    with pytest.MonkeyPatch.context() as patched, redirect_stdout(StringIO()) as output:
        for name in [name for name in os.environ if name.startswith("STAIR_")]:
            patched.delenv(name)
        for name, value in changes.items():
            patched.setenv(name, value)
        if "PYTHONPATH" in changes:
            patched.syspath_prepend(changes["PYTHONPATH"])
        patched.chdir(cwd)
        try:
            app(words, standalone_mode=False)
        except SystemExit as end:
            return int(str(end)), output.getvalue()
        return 0, output.getvalue()


def one(findings: list[dict[str, str]], words: str) -> dict[str, str]:
    """The one finding that contains some words."""
    matching = [finding for finding in findings if words in finding["text"]]
    assert len(matching) == 1, findings
    return matching[0]


def program(folder: Path, name: str, output: str, code: int = 0) -> Path:
    """A program with a fixed output, in place of one that needs a cluster or a GPU; gives its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.txt").write_text(output)
    path = folder / name
    path.write_text(f'#!/bin/sh\ncat "{folder / name}.txt"\nexit {code}\n')
    path.chmod(0o755)
    return folder


def path_with(*folders: Path) -> dict[str, str]:
    """PATH with these folders before the shell's own tools, and without this machine's Slurm and GPU."""
    tools = folders[0].parent / "tools"
    tools.mkdir(exist_ok=True)
    for name in ("sh", "cat"):
        if not (tools / name).exists():
            (tools / name).symlink_to(str(shutil.which(name)))
    return {"PATH": os.pathsep.join(map(str, (*folders, BIN, tools)))}


def test_here() -> None:
    """Whatever this machine has: every topic of the machine is reported, and in words too."""
    findings = doctor()
    assert {finding["topic"] for finding in findings} == {"devices", "packages", "slurm"}
    assert one(findings, "packages have the versions of ")["level"] == "ok"
    told = subprocess.run([BIN / "stair", "doctor"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert all(f"{finding['level']:8}{finding['topic']:11}{finding['text']}" in told for finding in findings)


def test_the_tiny_run_needs_nothing() -> None:
    findings = doctor("--run", "tiny")
    assert one(findings, "needs no download")["level"] == "ok"
    assert {f["level"] for f in findings if f["topic"] in ("attention", "disk", "hub")} == {"ok"}
    assert not [finding for finding in findings if finding["topic"] == "sglang"]


def test_an_unknown_run_is_one_line() -> None:
    done = subprocess.run([BIN / "stair", "doctor", "--run", "nowhere"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and "nowhere" in done.stderr


def test_packages_of_other_versions_and_missing_ones(tmp_path: Path) -> None:
    for name in ("Snakefile", "config.yaml", "workflow"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "envs", tmp_path / "envs")
    lock = tmp_path / "envs" / "cpu.lock"
    lock.write_text(lock.read_text().replace("numpy==", "numpy==0.").replace("pandas==", "pandas-of-old=="))
    findings = doctor(cwd=tmp_path)
    other = one(findings, "packages are not those of cpu.lock: numpy ")
    assert (other["level"], other["remedy"]) == ("warning", "make env DEVICE=cpu")
    assert "pandas-of-old is missing" in other["text"]
    lock.unlink()
    assert "there is no" in one(doctor(cwd=tmp_path), "cpu.lock")["text"]


def test_settings_that_cannot_be_used(own_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every fault has a line; the first is the one with which `stair config` ends."""
    overlay = yaml.safe_load(own_model.read_text())
    overlay["controllers"]["stair"]["layers"] = [3, 19, 29]
    overlay["benchmarks"]["ours"]["path"] = str(own_model.parent / "none.jsonl")
    own_model.write_text(yaml.safe_dump(overlay | {"reuse": ["nothing"]}))
    faults = [finding for finding in doctor("--run", str(own_model), code=1) if finding["topic"] == "settings"]
    assert [finding["text"].partition(":")[0] for finding in faults] == [
        "reuse", "controllers.stair.layers", "benchmarks.ours.path"
    ]  # fmt: skip
    assert all(finding["level"] == "error" and str(own_model) in finding["remedy"] for finding in faults)
    monkeypatch.chdir(ROOT)
    with pytest.raises(ConfigError) as refused:
        app(("config", "--run", str(own_model)), standalone_mode=False)
    assert str(refused.value) == faults[0]["text"]


# ---------------------------------------------------------------- devices


def test_a_gpu_and_torch_without_cuda(tmp_path: Path) -> None:
    listed = "0, NVIDIA A100-SXM4-80GB, 81920, 580.65.06\n1, NVIDIA A100-SXM4-80GB, 81920, 580.65.06\n"
    smi = program(tmp_path / "smi", "nvidia-smi", listed)
    site = package(tmp_path / "site", "torch", "2.13.0+cpu", module="torch")
    (site / "torch" / "version.py").write_text("cuda = None\n")
    findings = doctor(code=1, PYTHONPATH=str(site), **path_with(smi))
    assert "80 GiB, driver 580.65.06" in one(findings, "GPU 1: NVIDIA A100-SXM4-80GB")["text"]
    fault = one(findings, "is a CPU build, and this machine has 2 GPUs")
    assert (fault["level"], fault["remedy"]) == ("error", "make env DEVICE=cuda")


def test_a_driver_that_torch_cannot_use(tmp_path: Path) -> None:
    smi = program(tmp_path / "smi", "nvidia-smi", "0, NVIDIA T4, 15360, 450.80.02\n")
    site = package(tmp_path / "site", "torch", "2.13.0", module="torch")
    (site / "torch" / "version.py").write_text("cuda = '13.0'\n")
    (site / "torch" / "__init__.py").write_text(
        "raise ImportError('libcudart.so.13: cannot open shared object file')\n"
    )
    findings = doctor(code=1, PYTHONPATH=str(site), CUDA_VISIBLE_DEVICES="0", **path_with(smi))
    fault = one(findings, "torch is built for CUDA 13.0 and cannot use the GPUs")
    assert "libcudart.so.13" in fault["text"]
    assert "TORCH_INDEX=" in fault["remedy"]
    assert one(findings, "GPU 0: NVIDIA T4, 15 GiB")["level"] == "ok", "without a run nothing is known of its needs"


def test_a_driver_that_fails(tmp_path: Path) -> None:
    message = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n"
    findings = doctor(code=1, **path_with(program(tmp_path / "smi", "nvidia-smi", message, code=9)))
    assert one(findings, "couldn't communicate with the NVIDIA driver")["level"] == "error"


# ---------------------------------------------------------------- attention


def package(site: Path, name: str, version: str, module: str) -> Path:
    """An installed package: its module and its metadata; gives the folder of all packages."""
    (site / module).mkdir(parents=True, exist_ok=True)
    (site / module / "__init__.py").write_text("")
    metadata = site / f"{name.replace('-', '_')}-{version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (metadata / "top_level.txt").write_text(f"{module}\n")
    (metadata / "RECORD").write_text(f"{module}/__init__.py,,\n")
    return site


@pytest.fixture
def own_model(tmp_path: Path) -> Path:
    """The overlay of a run with a hybrid model of one's own."""
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps(QWEN35))
    page = (ROOT / "README.md").read_text().partition("```yaml\n")[2].partition("```")[0]
    overlay: dict[str, Any] = yaml.safe_load(page)
    overlay |= {"extends": "tiny", "select": {"models": ["mine"]}}  # whose data need no hub
    overlay["models"]["mine"]["path"] = str(model)
    overlay["benchmarks"]["ours"]["path"] = str(problems := tmp_path / "ours.jsonl")
    problems.write_text("".join(f'{{"problem": "{number} + 1?", "answer": "{number + 1}"}}\n' for number in range(4)))
    overlay["results"] = str(tmp_path / "results")
    overlay["transformers"] = {"attention": "auto", "device": "auto"}
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(overlay))
    return file


def test_flash_attention_3(own_model: Path, tmp_path: Path) -> None:
    overlay = yaml.safe_load(own_model.read_text())
    overlay["transformers"]["attention"] = "flash_attention_3"
    own_model.write_text(yaml.safe_dump(overlay))
    site = package(tmp_path / "site", "flash-attn-3", "3.0.0", "flash_attn_interface")
    findings = doctor("--run", str(own_model), PYTHONPATH=str(site))
    assert one(findings, "flash_attention_3 (transformers.attention: flash_attention_3)")["level"] == "ok"


@pytest.mark.parametrize(
    ("settings", "text", "level"),
    [
        ({"attention": "auto", "device": "cpu"}, "sdpa (transformers.attention: auto)", "ok"),
        (
            {"attention": "flash_attention_3"},
            "flash_attention_3 needs the package flash-attn-3, which is not installed",
            "error",
        ),
    ],
)
def test_a_configured_path(own_model: Path, settings: dict[str, str], text: str, level: str) -> None:
    overlay = yaml.safe_load(own_model.read_text()) | {"transformers": settings}
    own_model.write_text(yaml.safe_dump(overlay))
    assert one(doctor("--run", str(own_model), code=int(level == "error")), text)["level"] == level


# ---------------------------------------------------------------- hub and disk


@pytest.fixture
def hub() -> Iterator[Hub]:
    rows = b'{"problem": "1 + 1?", "answer": "2"}\n'
    model = {"config.json": json.dumps(QWEN35).encode(), "model.safetensors": bytes(4000)}
    repositories = {
        "lab/model": Repository({NEW: model}),
        "datasets/lab/bench": Repository({NEW: {"data/test.jsonl": rows}}, gated=True),
    }
    with serving(Hub(repositories)) as running:
        yield running


def at(hub: Hub, place: Path, **more: str) -> dict[str, str]:
    return {"HF_ENDPOINT": hub.address, "HF_HOME": str(place / "home"), **more}


def run_on(place: Path) -> Path:
    """A run of the hub's model whose training responses need no server."""
    return run_folder(place, rollouts={"engine": "transformers"})


def test_a_gated_data_set_without_and_with_a_token(hub: Hub, tmp_path: Path) -> None:
    folder = run_on(tmp_path)
    findings = doctor("--run", str(folder), code=1, **at(hub, tmp_path))
    gated = one(findings, "benchmarks.b: lab/bench from")
    assert gated["level"] == "error" and "HF_TOKEN" in gated["remedy"]
    assert "without a token" in one(findings, "answers")["text"], "the model is open"
    findings = doctor("--run", str(folder), **at(hub, tmp_path, HF_TOKEN="hf_allowed"))
    assert one(findings, "answers, with a token; 4.3 KB of 2 models and data sets to fetch")["level"] == "ok"


def test_a_hub_out_of_reach_counts_until_all_is_fetched(hub: Hub, tmp_path: Path) -> None:
    folder = run_on(tmp_path)
    away = at(hub, tmp_path) | {"HF_ENDPOINT": "http://127.0.0.1:9"}
    fault = one(doctor("--run", str(folder), code=1, **away), "http://127.0.0.1:9 does not answer")
    assert "models.m must be fetched" in fault["text"] and "--go --target fetch" in fault["remedy"]
    assert fetch(hub, folder, token="hf_allowed").returncode == 0
    hub.requests.clear()
    findings = doctor("--run", str(folder), **at(hub, tmp_path))
    assert one(findings, "all 3 models and data sets are in ")["level"] == "ok"
    assert not hub.requests, "nothing is to be fetched, so nothing is asked"
    doctor("--run", str(folder), **away)


def test_the_remedy_for_downloads_names_an_overlay_of_ones_own_by_its_path(tmp_path: Path) -> None:
    overlay = tmp_path / "own.yaml"
    overlay.write_text("extends: paper\n")
    fault = one(
        doctor("--run", str(overlay), code=1, HF_ENDPOINT="http://127.0.0.1:9", HF_HOME=str(tmp_path)),
        "must be fetched",
    )
    assert f"stair reproduce --run {overlay} --go --target fetch" in fault["remedy"]


def test_a_full_disk(hub: Hub, tmp_path: Path) -> None:
    folder = run_on(tmp_path)
    hub.told_sizes["model.safetensors"] = 10**15
    findings = doctor("--run", str(folder), code=1, **at(hub, tmp_path, HF_TOKEN="hf_allowed"))
    disk = one(findings, "1000.0 TB needed (1000.0 TB of downloads, 5.0 GB for logs and tables)")
    assert (disk["topic"], disk["level"]) == ("disk", "error")
    assert "set hub.cache" in disk["remedy"]


def test_the_papers_disk_has_room_for_its_responses() -> None:
    """About three billion tokens, which the plan counts."""
    text = one(doctor("--run", "paper", code=1, HF_ENDPOINT="http://127.0.0.1:9"), "of replayed states")["text"]
    config = resolve(ROOT, {"run": "paper"})
    planned = Planner(config, RunPaths.of(config)).disk_bytes()["responses"] / 1e9
    assert f"{planned:.1f} GB of responses" in text and planned > 40
    assert float(re.findall(r"([0-9.]+) GB needed", text)[0]) > planned + 24.5 + 5


def test_only_responses_and_their_logs_save_room(tmp_path: Path) -> None:
    config = resolve(ROOT, {"run": "paper", "results": str(tmp_path)})
    paths = RunPaths.of(config)
    planned = Planner(config, paths).disk_bytes()
    place = paths.work("evaluation", "qwen3.5-4b", "math500", "stair")

    def write(file: Path, size: int) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        with open(file, "wb") as sparse:
            sparse.truncate(size)

    for file in (paths.weights("qwen3.5-4b", "stair"), paths.figure("overview"), place / "banks" / "0.safetensors"):
        write(file, 10**9)
    assert _outputs(config, paths) == planned
    write(place / "log" / "0-of-1.000.log", 10**9)
    write(paths.responses("qwen3.5-4b", "math500", "stair"), 10**8)
    assert _outputs(config, paths) == planned | {"responses": planned["responses"] - 10**9 - 10**8}


def test_a_folder_that_cannot_be_written(hub: Hub, tmp_path: Path) -> None:
    folder = run_on(tmp_path)
    folder.chmod(0o555)
    try:
        command = [sys.executable, "-c", f"{GIVE_UP}; {CODE}", "doctor", "--run", str(folder), "--json"]
        shell = os.environ | at(hub, tmp_path, HF_TOKEN="hf_allowed")
        done = subprocess.run(command, cwd=ROOT, env=shell, capture_output=True, text=True, timeout=60, check=False)
    finally:
        folder.chmod(0o755)
    fault = one(json.loads(done.stdout)["findings"], "cannot be written")
    assert (done.returncode, fault["level"]) == (1, "error")
    assert (fault["topic"], "set `results`" in fault["text"]) == ("settings", True)


def test_random_weights_need_no_download() -> None:
    findings = doctor("--run", "shapes", HF_ENDPOINT="http://127.0.0.1:9")
    assert one(findings, "needs no download")["level"] == "ok"
    assert "downloads" not in one(findings, "for logs and tables")["text"]


@pytest.mark.parametrize("rollouts", ["sglang", "transformers"])
def test_a_server_without_its_environment(tmp_path: Path, rollouts: str) -> None:
    """For training responses, and for evaluation alone."""
    engines = {"rollouts": {"engine": rollouts}, "evaluation": {"engine": "sglang"} if rollouts != "sglang" else {}}
    folder = run_folder(tmp_path, sglang={"environment": str(tmp_path / "none")}, **engines)
    findings = doctor("--run", str(folder), code=1, HF_ENDPOINT="http://127.0.0.1:9", HF_HOME=str(tmp_path))
    fault = one(findings, "there is no environment for SGLang's server")
    assert fault["level"] == "error" and "`make sglang-env DEVICE=cuda`" in fault["text"]


# ---------------------------------------------------------------- Slurm


def test_no_slurm(tmp_path: Path) -> None:
    assert one(doctor(**path_with(tmp_path / "empty")), "Slurm is not installed here")["level"] == "ok"


@needs("sbatch", "slurm")
def test_slurms_client_without_a_controller(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text("ClusterName=none\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort=9\n")
    finding = one(doctor(SLURM_CONF=str(tmp_path / "slurm.conf")), "sbatch --test-only: ")
    assert finding["level"] == "warning" and finding["remedy"].startswith("scontrol ping")


def test_a_cluster_whose_gpus_torch_cannot_use(own_model: Path, tmp_path: Path) -> None:
    folder = program(tmp_path / "slurm", "sbatch", "")
    findings = doctor("--run", str(own_model), code=1, **path_with(folder))
    assert one(findings, "so jobs on GPU nodes compute on CPUs")["remedy"] == "make env DEVICE=cuda"
    assert one(findings, "Slurm accepts jobs from here")["level"] == "ok"


# ---------------------------------------------------------------- a replay's size
