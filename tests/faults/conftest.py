"""A smoke run that nobody disturbed, with which the killed ones are compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workflow.conftest import SMOKE, made_once
from tests.workflow.conftest import _one_import_for_all_commands as _one_import_for_all_commands  # not for killed runs

COMMAND = ("stair", "reproduce", "--run", str(SMOKE))
# Two rows at a time, so that responses end a few at a time and there is a middle to kill in. Batch width is in no key.
SLOW = ("--set", "transformers={batch_width: 2}")


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The results of a finished run; not to be changed."""
    return made_once(tmp_path_factory, worker_id, "undisturbed", *COMMAND, *SLOW) / "results" / "smoke"
