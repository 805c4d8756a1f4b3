"""The environment of SGLang's server: of the version and the device that are asked for."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from stair.config.engines import SGLangSettings
from stair.engines.sglang.launch import check_environment

ROOT = Path(__file__).parents[2]


def test_a_missing_environment_and_another_version_are_said(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="make sglang-env"):
        check_environment(SGLangSettings(environment=str(tmp_path / "none")))
    packages = tmp_path / "env" / "lib" / "python3.11" / "site-packages" / "sglang-0.5.1.dist-info"
    packages.mkdir(parents=True)
    (packages / "METADATA").write_text("Metadata-Version: 2.1\nName: sglang\nVersion: 0.5.1\n")
    (tmp_path / "env" / "bin").mkdir()
    (tmp_path / "env" / "bin" / "python").touch()
    with pytest.raises(ValueError, match=r"holds SGLang 0\.5\.1, but sglang\.version is 0\.5\.23"):
        check_environment(SGLangSettings(environment=str(tmp_path / "env")))


def test_an_environment_for_another_device_is_said(tmp_path: Path) -> None:
    packages = tmp_path / "lib" / "python3.11" / "site-packages"

    def install(name: str, version: str) -> None:
        folder = packages / f"{name}-{version}.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")

    cpu, cuda = (SGLangSettings(environment=str(tmp_path), device=device) for device in ("cpu", "cuda"))
    install("sglang", "0.5.23")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    check_environment(cuda)
    with pytest.raises(ValueError, match=r"lacks sglang-plain-cpu, but .* is cpu; .*`make sglang-env DEVICE=cpu`"):
        check_environment(cpu)
    install("sglang_plain_cpu", "0.2.0")
    check_environment(cpu)
    with pytest.raises(ValueError, match=r"has sglang-plain-cpu, .* is cuda; .*`make sglang-env DEVICE=cuda`"):
        check_environment(cuda)


def test_make_builds_the_environment_of_the_device_that_is_meant() -> None:
    def told(*words: str) -> str:
        return subprocess.run(
            ["make", "-n", "--always-make", *words], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout

    for device in ("cpu", "cuda"):
        assert f"DEVICE={device} FOLDER=.venv-sglang-{device} envs/sglang.sh" in told("sglang-env", f"DEVICE={device}")
    assert "DEVICE=cpu FOLDER=.venv-sglang-cpu envs/sglang.sh" in told("test-sglang", "DEVICE=cuda")
