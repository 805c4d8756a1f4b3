"""The time left of a run: no jump at the start, and the measured pace at the end."""

from __future__ import annotations

import pytest

from stair.pipeline.display import seconds_left


def test_before_anything_is_finished_it_is_the_expected_time_and_grows_slowly() -> None:
    start = seconds_left(0.0, 100.0, 0.0)
    assert 0.0 < start <= 100.0
    after_imports = seconds_left(2.0, 100.0, 11.0)  # packages were imported, and one job ended
    assert start < after_imports < 4.0 * start


def test_the_measured_pace_decides_in_the_end() -> None:
    assert seconds_left(90.0, 100.0, 300.0) == pytest.approx(10.0 * 300.0 / 90.0, rel=0.15)
    assert seconds_left(100.0, 100.0, 300.0) == 0.0
    assert seconds_left(0.0, 0.0, 5.0) == 0.0
