"""The small backbones that come with the project, and the tool that trains them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from stair.config.paths import RunPaths
from stair.config.resolve import resolve
from stair.models.load import load_model
from stair.models.model_folder import model_revision
from tests.tiny.cases import PROMPTS
from tools.tiny_backbones import FOLDER, SHAPES, Shape, train

ROOT = Path(__file__).parents[2]
WEIGHTS = {
    "tiny-qwen3-4b": "6b3754c7820c0db2b3b630c1aef59987c42078f92dda284508c6b76146dc1334",
    "tiny-qwen3.5-4b": "2c78f2d271070bc987b95907229d1be642621f7c74d99e3db89acc2cef575fb4",
    "tiny-qwen3.5-9b": "ad265b082e99dd7d7db9058753c7d5e9ae25e55ba001affe5bc4bd44065b64ec",
}
FILES = {
    "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja",
    "model.safetensors",
}  # fmt: skip


def test_the_files_are_those_of_the_card() -> None:
    card = (FOLDER / "README.md").read_text()
    for name, digest in WEIGHTS.items():
        assert model_revision(FOLDER / name, None) == digest
        assert digest in card


def test_they_are_small_and_load_as_any_model_folder() -> None:
    size = 0
    for name in WEIGHTS:
        assert {path.name for path in (FOLDER / name).iterdir()} == FILES
        size += (FOLDER / name / "model.safetensors").stat().st_size
        with safe_open(FOLDER / name / "model.safetensors", "pt") as weights:
            assert {weights.get_slice(key).get_dtype() for key in weights.keys()} == {"BF16"}  # noqa: SIM118
        model = load_model(FOLDER / name, dtype=torch.float32, device="cpu")
        assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert size <= 6 * 2**20


def test_the_tiny_run_takes_them() -> None:
    tiny = resolve(ROOT, {"run": "tiny"})
    paths = RunPaths.of(tiny)
    folders = [paths.model_folder(tiny, model) for model in tiny.models]
    assert [folder.name for folder in folders] == list(WEIGHTS)
    assert all((folder / "config.json").is_file() for folder in folders)
    assert {name: shape.model for name, shape in SHAPES.items()} == dict(zip(WEIGHTS, tiny.models, strict=True))


@pytest.mark.parametrize("hybrid", [False, True])
def test_a_training_gives_a_model_folder_and_a_seed_the_same_bytes(tmp_path: Path, hybrid: bool) -> None:
    shape = Shape("m", hybrid, 16, 8, 32, steps=2, batch_tokens=128, learning_rate=1e-2, heads=2)
    for name, seed in (("a", "one"), ("b", "one"), ("c", "other")):
        train(tmp_path / name, shape, PROMPTS, seed)
    assert {path.name for path in (tmp_path / "a").iterdir()} == FILES
    assert all((tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes() for name in FILES)
    assert (tmp_path / "a/model.safetensors").read_bytes() != (tmp_path / "c/model.safetensors").read_bytes()
    assert load_model(tmp_path / "a", dtype=torch.float32, device="cpu").config.num_hidden_layers == 12


def test_a_model_folder_of_the_project_is_found_from_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = resolve(ROOT, {"run": "tiny"})
    monkeypatch.chdir(tmp_path)
    for model in tiny.models:
        assert (RunPaths.of(tiny).model_folder(tiny, model) / "config.json").is_file()
