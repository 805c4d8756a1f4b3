"""What the tests of `make gpu` share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gpu.absent import python_without_extras


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment without the pipeline's packages."""
    return python_without_extras(tmp_path_factory.mktemp("bare") / "venv")
