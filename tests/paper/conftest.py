"""What the tests of tables, comparison and claims share."""

from __future__ import annotations

import pytest

from tests.paper.paper_frame import Frame, paper_config
from tests.shared import made_once
from tests.statistics.paper_rows import rows_of_evaluation, shared_t1_rows


@pytest.fixture(scope="session")
def paper_frame() -> Frame:
    """One frame of rows in each study, with every count that the paper prints."""
    config = paper_config()
    folder = made_once("paper-frame", lambda folder: Frame.of(folder, rows_of_evaluation(), shared_t1_rows(), config))
    return Frame(folder, config)
