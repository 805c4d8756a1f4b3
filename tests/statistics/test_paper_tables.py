"""Rows that carry the paper's counts give the paper's tables."""

from decimal import Decimal

import pandas as pd
import pytest

from stair.statistics.conditioning import history_tables, pooled_history
from stair.statistics.grid import Responses
from stair.statistics.metrics import gains
from stair.statistics.shared_t1_metrics import shared_t1_metrics
from stair.statistics.transitions import answer_transitions
from stair.statistics.values import Value
from tests.statistics.turn_scores import turn_metrics

from .frames import frame_of
from .paper_rows import (
    BENCHMARKS,
    MODELS,
    paper_values,
    rows_by_turn,
    rows_of_evaluation,
    shared_t1_rows,
)

KEYS = ["model", "benchmark", "condition", "turn", "group", "metric"]


@pytest.fixture(scope="module")
def responses() -> Responses:
    return Responses.from_frame(rows_of_evaluation())


def assert_equal_to_paper(values: list[Value], paper: pd.DataFrame, count: int) -> None:
    """Every one of the paper's `count` values is among ours, once, and ours rounds to it (half to even)."""
    ours = frame_of(values)
    assert not ours.duplicated(KEYS).any()
    joined = paper.merge(ours, on=KEYS, how="left", suffixes=("", "_ours"), validate="one_to_one")
    assert len(joined) == count
    for row in joined.itertuples():
        exact = Decimal(str(round(row.value_ours, 9)))  # drops the last bits of binary floating point only
        expected = Decimal(row.value)
        assert exact.quantize(expected) == expected, row
    assert list(joined["unit"]) == list(joined["unit_ours"])


def test_all_504_conditional_values(responses: Responses) -> None:
    values = [v for model in MODELS.values() for b in BENCHMARKS.values() for v in history_tables(responses, model, b)]
    assert_equal_to_paper(values, paper_values("tab:history-qwen.*"), 504)


def test_pooled_over_mathematical_benchmarks(responses: Responses) -> None:
    values = pooled_history(responses, ["math500", "aime2025", "amc23"])
    assert_equal_to_paper(values, paper_values("tab:history-correctness-summary"), 8)
    assert [value.value for value in values if value.metric == "n"] == [18879, 1425]


def test_answer_transitions(responses: Responses) -> None:
    values = answer_transitions(responses, "qwen3-4b-instruct", "math500")
    assert_equal_to_paper(values, paper_values("tab:native-accuracy"), 15)


@pytest.mark.parametrize(
    ("artifact", "count"), [("tab:turns-.*", 264), ("tab:continuous-summary", 72), ("tab:lora-turns", 32)]
)
def test_tables_by_turn(responses: Responses, artifact: str, count: int) -> None:
    assert_equal_to_paper(turn_metrics(responses), paper_values(artifact), count)


def test_lora_gains(responses: Responses) -> None:
    keys = {"model": "qwen3-4b-instruct", "benchmark": "aime2025"}
    values = turn_metrics(responses) + gains(responses, "stair", "native", **keys)
    values += gains(responses, "lora_stair", "lora", **keys)
    paper = paper_values("tab:lora-comparison")
    assert_equal_to_paper(values, paper[paper["metric"] != "trainable parameters"], 12)


def test_bank_prefixes() -> None:
    responses = Responses.from_frame(rows_by_turn("tab:bank-prefix-accuracy"))
    paper = paper_values("tab:bank-prefix-accuracy")
    values = shared_t1_metrics(responses, "qwen3.5-4b", "aime2025")
    assert_equal_to_paper(values, paper[paper["metric"] != "truncated"], 10)


def test_shared_t1_averages_test_time_seeds() -> None:
    rows = shared_t1_rows()
    responses = Responses.from_frame(rows[~rows["condition"].str.startswith("stair_prefix")])
    values = shared_t1_metrics(responses, "qwen3.5-4b", "aime2025")
    assert_equal_to_paper(values, paper_values("tab:shared-t1"), 18)
