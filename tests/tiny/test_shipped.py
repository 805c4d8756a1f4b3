"""The small backbones that come with the project: what they are, and how a training of them is compared with them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from typer.testing import CliRunner

from stair.cli.main import app
from stair.config.model import Config
from stair.config.paths import BACKBONE_FILES, RunPaths
from stair.config.resolve import dump, resolve
from stair.models.load import load_model
from stair.tiny import shipped
from stair.tiny.settings import EMBEDDED_VERSION
from stair.tiny.shipped import DIGESTS, FOLDER, ship, shipped_digests, trained
from stair.tiny.stage import train
from tests.sealed import seal

ROOT = Path(__file__).parents[2]
WEIGHTS = {
    3: {
        "tiny-qwen3-4b": "6b3754c7820c0db2b3b630c1aef59987c42078f92dda284508c6b76146dc1334",
        "tiny-qwen3.5-4b": "2c78f2d271070bc987b95907229d1be642621f7c74d99e3db89acc2cef575fb4",
        "tiny-qwen3.5-9b": "ad265b082e99dd7d7db9058753c7d5e9ae25e55ba001affe5bc4bd44065b64ec",
    },
}
"""The digests of every version: other weights come with a version of their own."""


def test_the_files_are_those_of_the_version() -> None:
    assert shipped_digests() == WEIGHTS[EMBEDDED_VERSION]
    assert json.loads((FOLDER / DIGESTS).read_text()) == {
        "embedded_version": EMBEDDED_VERSION,
        "digests": WEIGHTS[EMBEDDED_VERSION],
    }
    card = (FOLDER / "README.md").read_text()
    assert f"Version {EMBEDDED_VERSION}." in card
    assert all(digest in card for digest in WEIGHTS[EMBEDDED_VERSION].values())


def test_they_are_small_and_load_as_any_model_folder() -> None:
    size = 0
    for name in WEIGHTS[EMBEDDED_VERSION]:
        assert {path.name for path in (FOLDER / name).iterdir()} == set(BACKBONE_FILES)
        size += (FOLDER / name / "model.safetensors").stat().st_size
        with safe_open(FOLDER / name / "model.safetensors", "pt") as weights:
            assert {weights.get_slice(key).get_dtype() for key in weights.keys()} == {"BF16"}  # noqa: SIM118
        model = load_model(FOLDER / name, dtype=torch.float32, device="cpu")
        assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert size <= 6 * 2**20


def test_the_tiny_run_takes_them_and_one_run_trains_them() -> None:
    tiny, training = (resolve(ROOT, {"run": run}) for run in ("tiny", "tiny-backbones"))
    paths = RunPaths.of(tiny)
    folders = [paths.model_folder(tiny, model) for model in tiny.models]
    assert [folder.name for folder in folders] == list(WEIGHTS[EMBEDDED_VERSION])
    assert all((folder / "config.json").is_file() for folder in folders)
    for key, model in training.models.items():
        assert model.tiny is not None
        assert model.model_copy(update={"tiny": None, "path": tiny.models[key].path}) == tiny.models[key]
    # All else by which their training is keyed is the same, so the accuracies are those of the tiny run's problems.
    assert training.prompts == tiny.prompts
    assert training.benchmarks == tiny.benchmarks


def test_a_model_folder_of_the_project_is_found_from_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = resolve(ROOT, {"run": "tiny"})
    monkeypatch.chdir(tmp_path)
    for model in tiny.models:
        assert (RunPaths.of(tiny).model_folder(tiny, model) / "config.json").is_file()


def smoke(results: Path) -> Config:
    """A run that trains one backbone for a few updates, under the name of a shipped one."""
    labelled = {"models": {"qwen3-4b-instruct": {"label": "Tiny Qwen3-4B"}}}
    return resolve(ROOT, {"run": "smoke", "results": str(results), **labelled})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of `smoke`, whose backbone is trained. Tests leave it as it is."""
    config = smoke(tmp_path_factory.mktemp("results"))
    paths = RunPaths.of(config)
    paths.resolved.parent.mkdir()
    paths.resolved.write_text(dump(config))
    facts = train(config, paths, "qwen3-4b-instruct")
    seal(paths, "backbone", paths.backbone("qwen3-4b-instruct"), **facts)
    return paths.folder


def test_another_digest_is_reported_with_the_accuracies_and_ships_with_a_version_only(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "backbones"
    monkeypatch.setattr(shipped, "FOLDER", place)
    told = CliRunner().invoke(app, ["compare-backbones", "--run", str(run)])
    assert told.output.startswith("tiny-qwen3-4b: not shipped; SHA-256 ")
    shutil.copytree(FOLDER, place)
    before = shipped_digests()["tiny-qwen3-4b"]
    (mine,) = trained(smoke(run.parent), RunPaths(run))
    told = CliRunner().invoke(app, ["compare-backbones", "--run", str(run)])
    assert told.exit_code == 0
    first, second, *_ = told.output.splitlines()
    assert first == f"tiny-qwen3-4b: NOT AS SHIPPED; SHA-256 {mine.digest}, shipped {before}"
    accuracies = [f"T{turn} {mine.accuracies['math500'][f'T{turn}']:.0%}" for turn in range(1, 5)]
    assert second == "  math500: " + ", ".join(accuracies)

    assert "  warning: out of bounds: math500 T1" in told.output
    with pytest.raises(
        ValueError, match=r"trains tiny-qwen3-4b, and the project comes with tiny-qwen3-4b, tiny-qwen3\.5"
    ):
        ship([mine])
    (place / DIGESTS).write_text(json.dumps({"embedded_version": EMBEDDED_VERSION, "digests": {mine.name: before}}))
    with pytest.raises(ValueError, match=r"raise EMBEDDED_VERSION in stair/tiny/settings\.py first"):
        ship([mine])
    assert shipped_digests()["tiny-qwen3-4b"] == before
    monkeypatch.setattr(shipped, "EMBEDDED_VERSION", EMBEDDED_VERSION + 1)
    ship([mine])
    assert shipped_digests()["tiny-qwen3-4b"] == mine.digest
    assert json.loads((place / DIGESTS).read_text()) == {
        "embedded_version": EMBEDDED_VERSION + 1,
        "digests": {"tiny-qwen3-4b": mine.digest},
    }
    assert mine.digest in (place / "README.md").read_text()
    told = CliRunner().invoke(app, ["compare-backbones", "--run", str(run)])
    assert told.output.startswith(f"tiny-qwen3-4b: as shipped; SHA-256 {mine.digest}\n")


def test_a_run_without_small_backbones_is_told_so() -> None:
    tiny = resolve(ROOT, {"run": "tiny"})
    with pytest.raises(ValueError, match=r"trains no small backbone"):
        trained(tiny, RunPaths.of(tiny))
