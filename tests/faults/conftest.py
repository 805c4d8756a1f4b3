"""The results of a run that nobody disturbed, with which those of killed ones are compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workflow.conftest import finished_run as finished_run


@pytest.fixture(scope="session")
def undisturbed(finished_run: Path) -> Path:
    """The results of the smoke run; not to be changed."""
    return finished_run / "results" / "smoke"
