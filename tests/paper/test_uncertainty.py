"""The tables of intervals and comparisons."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from stair.config.resolve import resolve
from stair.core import ConditionName
from stair.paper.labels import Labels
from stair.paper.layout import DASH, markdown, rounded, signed
from stair.statistics.grid import Gap, Responses
from stair.statistics.interval_tables import condition_comparisons, turn_intervals
from stair.statistics.intervals import bootstrap_interval
from stair.statistics.shared_t1_metrics import shared_t1_metrics
from tests.paper.paper_frame import ROOT
from tests.paper.sources import table_of
from tests.paper.test_tables import rows
from tests.statistics.paper_rows import grid_rows

LABELS = Labels(models={"m": "Model"}, benchmarks={"b": "Bench", "c": "Other"})
COUNTS = {("vanilla", 1): 8, ("native", 1): 8, ("native", 0): 4, ("stair", 1): 8, ("stair", 0): 12}


@pytest.fixture
def frame() -> pd.DataFrame:
    other = rows("c", COUNTS)
    missing = (other["condition"] == "stair") & (other["turn"] == 3) & (other["problem_id"] == "p2")
    return pd.concat([rows("b", COUNTS), other[~missing]], ignore_index=True)


def test_every_score_has_its_two_intervals(frame: pd.DataFrame) -> None:
    responses = Responses.from_frame(frame)
    table = table_of("intervals", frame, LABELS)
    assert table is not None
    found = {(v.benchmark, v.condition, v.turn, v.group, v.metric): v.value for v in table.values}
    expected = pd.DataFrame(turn_intervals(responses)).set_index(["benchmark", "condition", "turn", "metric"])
    row = expected.loc[("b", "stair", "T2-T4", "Avg@4")]
    place = ("b", "stair", "T2-T4", "")
    assert found[*place, "Avg@4 interval low"] == row["low"] < row["value"] < row["high"]
    assert found[*place, "Avg@4 rerun high"] == row["rerun_high"]
    assert ("b", "native", "T2", "T1 correct", "accuracy interval low") in found
    assert isinstance(found["c", "stair", "T3", "", "Avg@4 rerun low"], Gap)
    text = markdown(table.layout)
    line = f"| Bench | STAIR | T2–T4 | 75.00 | {rounded(row['low'], 1)} to {rounded(row['high'], 1)} |"
    assert line in text
    assert "| Other | STAIR | T2–T4 | – | – | – |" in text
    assert "Not reported: m, c, stair, T3: 4 of 16 responses missing" in text


def test_a_familys_seeds_are_averaged_before_they_are_compared() -> None:
    """Pass@4 is the mean of the seeds' Pass@4: two seeds that solve different problems do not add up."""
    keys = [f"mine-{seed}" for seed in (1, 2)]
    names = {key: ConditionName("mine", seed=seed) for seed, key in enumerate(keys, start=1)}
    grids = {"native": [[0, 0, 0, 0]] * 4, keys[0]: [[1, 1, 0, 0]] * 2 + [[0, 0, 0, 0]] * 2}
    grids[keys[1]] = [[0, 0, 0, 0]] * 2 + [[1, 1, 1, 1]] * 2
    frames = [grid_rows("m", "b", key, 2, np.array(grid, dtype=bool), np.arange(4)) for key, grid in grids.items()]
    frame = pd.concat(frames)
    responses = Responses.from_frame(frame)

    def differences(labels: Labels) -> dict[tuple[str, str], object]:
        table = table_of("shared_t1_comparisons", frame, labels)
        assert table is not None
        return {(v.condition, v.metric): v.value for v in table.values}

    found = differences(Labels(names=names))
    assert found["mine", "Avg@4 minus Native"] == 37.5
    assert found["mine", "Pass@4 minus Native"] == 50.0
    scores = np.array([25.0, 25.0, 50.0, 50.0])
    interval = bootstrap_interval(scores, limits=None)
    assert found["mine", "Avg@4 minus Native interval low"] == pytest.approx(interval.low)
    assert interval.low < 37.5 < interval.high
    three = Labels(names={**names, "mine-3": ConditionName("mine", seed=3)})
    assert ("mine", "Avg@4 minus Native") not in differences(three), "a seed without responses: no average"
    (shown,) = [
        v.value
        for v in shared_t1_metrics(responses, "m", "b", seeds_of=three.seeds, name_of=three.name)
        if (v.condition, v.metric) == ("mine", "Avg@4")
    ]
    assert shown == Gap("m, b, mine: 2 of 3 test-time seeds are there")


def test_conditions_are_compared_with_native_problem_by_problem(frame: pd.DataFrame) -> None:
    responses = Responses.from_frame(frame)
    table = table_of("comparisons", frame, LABELS)
    assert table is not None
    expected = pd.DataFrame(condition_comparisons(responses, "m", "b", "stair", "native")).set_index(["turn", "metric"])
    row = expected.loc[("T2-T4", "Avg@4")]
    found = {(v.benchmark, v.turn, v.metric): v.value for v in table.values}
    assert found["b", "T2-T4", "Avg@4 minus Native"] == row["value"] == 50.0
    assert found["b", "T2-T4", "Avg@4 minus Native p"] == row["p"]
    assert isinstance(found["c", "T2-T4", "Avg@4 minus Native"], Gap)
    assert {v.condition for v in table.values} == {"stair"}, "Vanilla has no later turns"
    text = markdown(table.layout)
    assert (
        f"| Bench | STAIR | +50.00 | {signed(row['low'])} to {signed(row['high'])} | {rounded(row['p'], 3)} |" in text
    )
    assert "| Other | STAIR | – | – | – | – | – |" in text
    assert not any("noise floor" in v.metric for v in table.values), "nothing asks Native again"


def again(frame: pd.DataFrame, condition: str, flipped: int) -> pd.DataFrame:
    """Native's rows of the first benchmark under another condition, with so many verdicts at T2 turned round."""
    copy = frame[(frame["condition"] == "native") & (frame["benchmark"] == "b")].assign(condition=condition)
    turned = copy.index[copy["turn"] == 2][:flipped]
    copy.loc[turned, "correct"] = ~copy.loc[turned, "correct"].astype(bool)
    return copy


def test_repeat_conditions_are_those_of_the_configuration() -> None:
    assert Labels.of(resolve(ROOT, {"run": "paper"})).repeats == {"native_again": "native", "stair_null": "native"}


def test_what_asks_native_again_stands_beside_every_effect_as_its_noise(frame: pd.DataFrame) -> None:
    both = pd.concat([frame, again(frame, "native_again", 0), again(frame, "stair_null", 3)], ignore_index=True)
    table = table_of("comparisons", both, LABELS)
    assert table is not None
    found = {(v.benchmark, v.condition, v.turn, v.metric): v.value for v in table.values}
    floor = "Avg@4 minus Native noise floor"
    # Three of sixteen verdicts at one of three turns.
    assert found["b", "stair", "T2", floor] == pytest.approx(100 * 3 / 16)
    assert found["b", "stair", "T2-T4", floor] == pytest.approx(100 * 3 / 48)
    assert found["b", "stair", "T3", floor] == 0.0
    assert found["b", "native_again", "T2-T4", "Avg@4 minus Native"] == 0.0
    assert ("b", "stair_null", "T2", floor) not in found, "noise has no noise floor"
    assert ("c", "stair", "T2", floor) not in found, "where it was not measured, nothing is said"
    cells = {
        row.cells[1].text: row.cells for row in table.layout.rows if not row.heading and row.cells[0].text == "Bench"
    }
    assert cells["STAIR"][-1].text == "6.25"
    assert [cell.text for cell in cells["Native again"][2:]] == ["0.00", "all equal", "1.000", DASH, DASH]
    assert cells["STAIR times zero"][-1].text == cells["Native again"][-1].text == DASH
    assert not any(cell.bold for name in ("STAIR times zero", "Native again") for cell in cells[name])


def test_what_differs_beyond_chance_is_bold_and_nothing_else() -> None:
    """A benchmark where STAIR is right wherever Native is wrong, beside one where both are the same."""
    apart = pd.concat(
        [
            rows("b", {("native", 0): 2, ("stair", 0): 14}).assign(problem_id=lambda f, n=n: f["problem_id"] + f"-{n}")
            for n in range(6)
        ]
    )
    same = rows("c", {("native", 0): 8, ("stair", 0): 8})
    table = table_of("comparisons", pd.concat([apart, same], ignore_index=True), LABELS)
    assert table is not None
    marks = {row.cells[0].text: row.cells[2].bold for row in table.layout.rows if not row.heading}
    assert marks == {"Bench": True, "Other": False}


def test_without_native_there_is_nothing_to_compare() -> None:
    frame = rows("b", COUNTS)
    assert table_of("comparisons", frame[frame["condition"] != "native"], LABELS) is None


def test_a_difference_of_nothing_has_no_sign() -> None:
    assert (signed(-1e-12), signed(0.004), signed(-0.004), signed(-0.006)) == ("0.00", "0.00", "0.00", "−0.01")
