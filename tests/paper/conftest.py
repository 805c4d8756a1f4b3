"""What the tests of tables, comparison and claims share."""

from __future__ import annotations

import pytest

from tests.paper.paper_frame import Frame, paper_config
from tests.statistics.paper_rows import rows_of_evaluation, shared_t1_rows


@pytest.fixture(scope="session")
def paper_frame(tmp_path_factory: pytest.TempPathFactory) -> Frame:
    """One frame of rows in each study, with every count that the paper prints."""
    return Frame.of(tmp_path_factory.mktemp("frame"), rows_of_evaluation(), shared_t1_rows(), paper_config())
