"""Drawing, identity and storage of the two controllers, and their parameter counts at the published shapes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from method_cases import LAYERS, SHARED
from safetensors.torch import save_file

from stair.method import BankFree, Reflector, load_adapter, load_controller
from stair.method.controllers import ADAPTER_FILES
from stair.method.storage import write_tensors
from stair.models.architecture import describe
from stair.models.published import CONFIGS, CONTROLLED_LAYERS

TINY = describe({"model_type": "qwen3", **SHARED})


def test_normals_are_drawn_from_the_papers_distribution() -> None:
    normals = Reflector.draw((3, 11, 19), 32, 128, seed=0).normals
    assert normals.dtype == torch.float32
    assert normals.numel() == 12_288
    assert float(normals.detach().std()) == pytest.approx(128**-0.5, rel=0.03)
    assert abs(float(normals.detach().mean())) < 3 * (128 * 12_288) ** -0.5


def test_a_draw_is_a_function_of_its_seed() -> None:
    torch.manual_seed(5)
    first = Reflector.draw(LAYERS, 4, 16, seed=1)
    state = torch.random.get_rng_state()
    again = Reflector.draw(LAYERS, 4, 16, seed=1)
    assert torch.equal(state, torch.random.get_rng_state())
    assert first.digest == again.digest != Reflector.draw(LAYERS, 4, 16, seed=2).digest


def test_a_controller_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    """safetensors' own writer makes files for their owner alone."""
    BankFree(LAYERS, torch.zeros(2, 4, 16)).save(tmp_path / "c.safetensors")
    (tmp_path / "plain").touch()
    assert (tmp_path / "c.safetensors").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("kind", [Reflector, BankFree])
def test_a_controller_comes_back_from_disk(tmp_path: Path, kind: type) -> None:
    controller = kind(LAYERS, torch.randn(2, 4, 16))
    controller.save(tmp_path / "c.safetensors", model="tiny", note="a b")
    for again in (kind.load(tmp_path / "c.safetensors", TINY), load_controller(tmp_path / "c.safetensors", TINY)):
        assert type(again) is kind
        assert torch.equal(again.weights, controller.weights)
        assert (again.layers, again.digest, again.metadata) == (
            LAYERS,
            controller.digest,
            {"model": "tiny", "note": "a b"},
        )
    with torch.no_grad():
        controller.weights[0, 0, 0] += 1
    assert controller.digest != again.digest


def test_equal_controllers_are_equal_files(tmp_path: Path) -> None:
    controller = Reflector(LAYERS, torch.randn(2, 4, 16))
    notes = {f"note {number}": "é" for number in range(6)}
    files = [tmp_path / f"{number}.safetensors" for number in range(8)]
    for file in files:
        controller.save(file, **notes)
    assert len({file.read_bytes() for file in files}) == 1


@pytest.mark.parametrize(
    ("layers", "shape", "message"),
    [((1, 9), (2, 4, 16), "layer 9 does not exist"), (LAYERS, (2, 4, 8), "head_dim"), ((1, 1), (2, 4, 16), "twice")],
)
def test_a_mismatched_model_is_an_error(tmp_path: Path, layers: tuple, shape: tuple, message: str) -> None:
    Reflector(layers, torch.randn(*shape)).save(tmp_path / "c.safetensors")
    Reflector.load(tmp_path / "c.safetensors")
    with pytest.raises(ValueError, match=message) as caught:
        Reflector.load(tmp_path / "c.safetensors", TINY)
    assert "c.safetensors" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_another_kind_of_file_is_an_error(tmp_path: Path) -> None:
    BankFree.zeros(LAYERS, 4, 16).save(tmp_path / "c.safetensors")
    with pytest.raises(ValueError, match="'bank_free', not 'reflector'"):
        Reflector.load(tmp_path / "c.safetensors")
    (tmp_path / "c.safetensors").write_bytes(b"no")
    with pytest.raises(ValueError, match=r"c\.safetensors"):
        load_controller(tmp_path / "c.safetensors")


def test_a_file_of_an_earlier_version_is_said_to_be_one(tmp_path: Path) -> None:
    save_file({Reflector.weight_name: torch.ones(1, 4, 8)}, tmp_path / "controller.safetensors", {"kind": "reflector"})
    with pytest.raises(ValueError, match="was written by an earlier version of the project; train it again"):
        load_controller(tmp_path)


def test_the_folder_of_another_kind_names_the_function_that_loads_it(tmp_path: Path) -> None:
    adapter, controller, empty = (tmp_path / name for name in ("adapter", "controller", "empty"))
    for folder in (adapter, controller, empty):
        folder.mkdir()
    for name in ADAPTER_FILES:
        (adapter / name).touch()
    BankFree.zeros(LAYERS, 4, 16).save(controller / "controller.safetensors")
    attempts = (
        (
            lambda: load_controller(adapter),
            "adapter holds no controller: there is no controller.safetensors; load_adapter reads its adapter$",
        ),
        (lambda: load_controller(empty), "empty holds no controller: there is no controller.safetensors$"),
        (
            lambda: load_adapter(None, controller),
            "controller holds no adapter: there is no adapter_config.json; load_controller reads its controller$",
        ),
        (lambda: load_adapter(None, empty), "empty holds no adapter: there is no adapter_config.json$"),
    )
    for attempt, message in attempts:
        with pytest.raises(ValueError, match=message) as caught:
            attempt()
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", [Reflector, BankFree])
def test_a_model_with_equal_heads_is_a_mismatched_model_too(tmp_path: Path, kind: type) -> None:
    """Qwen3.5-4B and Qwen3.5-9B have 16 query heads of 256 channels both."""
    small, large = describe(CONFIGS["qwen3.5-4b"]), describe(CONFIGS["qwen3.5-9b"])
    file, again = tmp_path / "c.safetensors", tmp_path / "again.safetensors"
    controller = kind(CONTROLLED_LAYERS, torch.randn(3, 16, 256))
    controller.check(large)
    controller.save(file, architecture=small, model="qwen3.5-4b")
    loaded = load_controller(file, small)
    assert loaded.metadata == {"model": "qwen3.5-4b"}
    loaded.save(again, **loaded.metadata)
    assert again.read_bytes() == file.read_bytes()
    for attempt in (lambda: load_controller(file, large), lambda: load_controller(again).check(large)):
        with pytest.raises(ValueError, match="belongs to a model with hidden_size 2560, this one has 4096"):
            attempt()
    with pytest.raises(ValueError, match="head_dim"):
        controller.save(file, architecture=describe(CONFIGS["qwen3-4b-instruct"]))


def test_a_damaged_header_is_named(tmp_path: Path) -> None:
    file = tmp_path / "c.safetensors"
    for facts in ({}, {"layers": "[1, 3"}, {"layers": [1]}, {"layers": [1, 3]}, {"layers": 3}):
        write_tensors(file, {"normals": torch.zeros(2, 4, 16)}, {"kind": "reflector", **facts})
        with pytest.raises(ValueError, match=r"c\.safetensors is damaged"):
            load_controller(file)
