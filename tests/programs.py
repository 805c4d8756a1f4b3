"""Programs that only some tests need: without one, its tests are skipped with the reason; in CI they fail."""

from __future__ import annotations

import os
import shutil

import pytest

REQUIRED = "STAIR_REQUIRE_PROGRAMS"
"""Environment: 1 where every program must be there, so that no test is skipped for want of one."""


def needs(program: str, group: str) -> pytest.MarkDecorator:
    """A mark for tests that run a program; `group` is its group of packages in envs/debian.sh."""
    absent = shutil.which(program) is None
    required = os.environ.get(REQUIRED) == "1"
    return pytest.mark.skipif(
        absent and not required, reason=f"{program} is not installed; on Debian and Ubuntu: envs/debian.sh {group}"
    )
