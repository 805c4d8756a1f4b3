"""Metrics from complete grids only."""

import math

import numpy as np
import pandas as pd
import pytest

from stair.core import ConditionName
from stair.statistics.conditioning import history_tables, pooled_history
from stair.statistics.grid import Gap, Grid, Responses, TurnKey
from stair.statistics.metrics import avg_at_k, pass_at_k
from stair.statistics.shared_t1_metrics import shared_t1_metrics, truncated_banks
from stair.statistics.transitions import answer_transitions, transition_shares
from tests.statistics.turn_scores import turn_metrics

from .frames import frame_of
from .paper_rows import grid_rows

MODEL, BENCHMARK = "qwen3-4b-instruct", "aime2025"


def session_rows(problems: int = 6, seed: int = 0) -> pd.DataFrame:
    """Vanilla, Native and STAIR over four turns, with answers drawn at random."""
    generator = np.random.default_rng(seed)
    identity = np.arange(problems)
    first = generator.random((problems, 4)) < 0.6
    frames = [grid_rows(MODEL, BENCHMARK, name, 1, first, identity) for name in ("vanilla", "native", "stair")]
    for turn in (2, 3, 4):
        for condition in ("native", "stair"):
            correct = generator.random((problems, 4)) < 0.5
            frames.append(grid_rows(MODEL, BENCHMARK, condition, turn, correct, np.roll(identity, turn - 1)))
    return pd.concat(frames, ignore_index=True)


@pytest.fixture
def rows() -> pd.DataFrame:
    return session_rows()


def value(responses: Responses, condition: str, turn: str, metric: str = "Avg@4") -> float | Gap:
    (found,) = [
        each.value
        for each in turn_metrics(responses)
        if (each.condition, each.turn, each.metric) == (condition, turn, metric)
    ]
    return found


def test_avg_and_pass() -> None:
    correct = np.array([[1, 1, 1, 1], [1, 0, 0, 0], [0, 0, 0, 0]], dtype=bool)
    grid = Grid(("a", "b", "c"), correct, np.full((3, 4), "s", dtype=object), None)
    assert avg_at_k(grid) == 100 * 5 / 12
    assert pass_at_k(grid) == 100 * 2 / 3


def test_the_order_of_rows_does_not_matter(rows: pd.DataFrame) -> None:
    shuffled = rows.sample(frac=1, random_state=1)
    values = {tuple(row[:6]): row[6] for row in frame_of(turn_metrics(Responses.from_frame(rows))).to_numpy()}
    again = {tuple(row[:6]): row[6] for row in frame_of(turn_metrics(Responses.from_frame(shuffled))).to_numpy()}
    assert values == again


def test_one_missing_response_leaves_a_gap_with_its_reason(rows: pd.DataFrame) -> None:
    missing = (rows["condition"] == "stair") & (rows["turn"] == 3) & (rows["problem_id"] == "problem-2")
    missing &= rows["sample"] == 1
    responses = Responses.from_frame(rows[~missing])
    for turn in ("T3", "T2-T4"):
        gap = value(responses, "stair", turn)
        assert isinstance(gap, Gap)
        assert gap.reason == (
            f"{MODEL}, {BENCHMARK}, stair, T3: 1 of 24 responses missing, first problem 'problem-2', sample 1"
        )
    assert isinstance(value(responses, "stair", "T2"), float)
    assert isinstance(value(responses, "native", "T2-T4"), float)
    told = Responses.from_frame(
        rows[~missing], reasons={TurnKey(MODEL, BENCHMARK, "stair", 3): {("problem-2", 1): "out of memory"}}
    )
    gap = value(told, "stair", "T3")
    assert isinstance(gap, Gap) and gap.reason.endswith("first problem 'problem-2', sample 1 (out of memory)")


def test_a_gap_reaches_every_number_that_needs_it_and_no_other(rows: pd.DataFrame) -> None:
    missing = (rows["condition"] == "stair") & (rows["turn"] == 3) & (rows["problem_id"] == "problem-2")
    responses = Responses.from_frame(rows[~missing])
    table = frame_of(history_tables(responses, MODEL, BENCHMARK))
    gaps = table[table["gap"].notna()]
    assert set(zip(gaps["condition"], gaps["turn"], strict=True)) == {("stair", "T3")}
    assert gaps["value"].isna().all()
    pooled = frame_of(pooled_history(responses, [BENCHMARK]))
    assert set(pooled[pooled["gap"].notna()]["condition"]) == {"stair"}
    assert not frame_of(answer_transitions(responses, MODEL, BENCHMARK))["gap"].notna().any()


def test_a_problem_that_one_condition_lacks_altogether_is_a_gap(rows: pd.DataFrame) -> None:
    lacking = (rows["condition"] == "native") & (rows["turn"] == 2) & (rows["problem_id"] == "problem-0")
    assert isinstance(value(Responses.from_frame(rows[~lacking]), "native", "T2"), Gap)


def test_the_benchmark_may_name_its_problems(rows: pd.DataFrame) -> None:
    everywhere = rows[rows["problem_id"] != "problem-0"]
    names = {BENCHMARK: [f"problem-{index}" for index in range(6)]}
    assert isinstance(value(Responses.from_frame(everywhere), "vanilla", "T1"), float)
    assert isinstance(value(Responses.from_frame(everywhere, problems=names), "vanilla", "T1"), Gap)


def test_a_response_that_occurs_twice_is_refused(rows: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="problem-0', sample 0 occurs 2 times"):
        Responses.from_frame(pd.concat([rows, rows.iloc[:1]]))


def test_unknown_problems_samples_and_missing_columns_are_refused(rows: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="'problem-5' is no problem of the benchmark"):
        Responses.from_frame(rows, problems={BENCHMARK: [f"problem-{index}" for index in range(5)]})
    with pytest.raises(ValueError, match="a sample outside 0 to 2"):
        Responses.from_frame(rows, samples=3)
    with pytest.raises(ValueError, match="lack the columns session_id, correct"):
        Responses.from_frame(rows.drop(columns=["session_id", "correct"]))
    with pytest.raises(ValueError, match="`correct` is null"):
        Responses.from_frame(rows.assign(correct=rows["correct"].astype("boolean").where(rows["turn"] != 2)))


def test_seeds_of_matched_responses_must_agree(rows: pd.DataFrame) -> None:
    rows.loc[(rows["condition"] == "native") & (rows["turn"] == 2), "seed"] += 1
    with pytest.raises(ValueError, match="seeds"):
        answer_transitions(Responses.from_frame(rows), MODEL, BENCHMARK)


def test_both_directions_add_up_to_the_net_change(rows: pd.DataFrame) -> None:
    responses = Responses.from_frame(rows)
    counts = {(v.turn, v.metric): v.value for v in answer_transitions(responses, MODEL, BENCHMARK)}
    shares = {(v.turn, v.metric): v.value for v in transition_shares(responses, MODEL, BENCHMARK)}
    assert len(shares) == 3 * 3
    for turn in ("T2", "T3", "T4"):
        up, down = (shares[turn, f"{name} contribution"] for name in ("wrong to correct", "correct to wrong"))
        # Six problems with four samples each.
        assert up == pytest.approx(100 * counts[turn, "wrong to correct"] / 24)
        assert down == pytest.approx(-100 * counts[turn, "correct to wrong"] / 24)
        assert up + down == pytest.approx(shares[turn, "net change"]) == counts[turn, "net change"]


def test_conditions_that_do_not_share_their_first_answers_are_refused(rows: pd.DataFrame) -> None:
    first = (rows["condition"] == "stair") & (rows["turn"] == 1)
    rows.loc[first, "correct"] = ~rows.loc[first, "correct"]
    with pytest.raises(ValueError, match="do not share their T1 responses"):
        history_tables(Responses.from_frame(rows), MODEL, BENCHMARK)


def test_conditioning_looks_at_the_same_session_and_sample(rows: pd.DataFrame) -> None:
    """Against a direct count over rows."""
    responses = Responses.from_frame(rows)
    opened = {
        (row.session_id, row.sample): row.correct
        for row in rows[(rows["condition"] == "native") & (rows["turn"] == 1)].itertuples()
    }
    later = rows[(rows["condition"] == "native") & (rows["turn"] == 4)]
    members = [row for row in later.itertuples() if opened[row.session_id, row.sample]]
    table = {(v.condition, v.turn, v.group, v.metric): v.value for v in history_tables(responses, MODEL, BENCHMARK)}
    assert table["", "T4", "T1 correct", "n"] == len(members)
    assert table["native", "T4", "T1 correct", "correct"] == sum(row.correct for row in members)
    vanilla = {(row.problem_id, row.sample): row.correct for row in rows[rows["condition"] == "vanilla"].itertuples()}
    matched = sum(vanilla[row.problem_id, row.sample] for row in members)
    assert table["vanilla", "T4", "T1 correct", "correct"] == matched


def test_an_empty_group_has_no_accuracy() -> None:
    rows = session_rows()
    rows.loc[rows["turn"] == 1, "correct"] = True
    table = {
        (v.condition, v.turn, v.group, v.metric): v.value
        for v in history_tables(Responses.from_frame(rows), MODEL, BENCHMARK)
    }
    assert table["", "T2", "T1 wrong", "n"] == 0
    assert table["native", "T2", "T1 wrong", "accuracy"] == Gap("no response in this group")


def test_a_control_needs_all_its_test_time_seeds() -> None:
    grid = np.ones((3, 4), dtype=bool)
    names = ["native", "random_reflector-0", "random_reflector-1"]
    frames = [grid_rows(MODEL, BENCHMARK, name, 2, grid, np.arange(3)) for name in names]
    responses = Responses.from_frame(pd.concat(frames))
    values = {(v.condition, v.metric): v.value for v in shared_t1_metrics(responses, MODEL, BENCHMARK)}
    assert isinstance(values["random_reflector", "Avg@4"], Gap)
    assert isinstance(values["random_reflector", "Avg@4 minus Native"], Gap)
    assert values["native", "Avg@4"] == 100.0
    two = {
        (v.condition, v.metric): v.value
        for v in shared_t1_metrics(responses, MODEL, BENCHMARK, seeds_of=lambda family: 2)
    }
    assert two["random_reflector", "Avg@4 minus Native"] == 0.0


def test_conditions_of_other_keys_are_grouped_by_their_fields() -> None:
    """A configuration can give any key a family, a seed or a prefix."""
    grids = {"first": np.ones((3, 4), dtype=bool), "second": np.zeros((3, 4), dtype=bool)}
    frames = [grid_rows(MODEL, BENCHMARK, name, 2, grid, np.arange(3)) for name, grid in grids.items()]
    names = {"first": ConditionName("mine", seed=1), "second": ConditionName("mine", seed=2)}

    def name_of(condition: str) -> ConditionName:
        return names.get(condition) or ConditionName(condition)

    rows = pd.concat(frames, ignore_index=True)
    found = shared_t1_metrics(Responses.from_frame(rows), MODEL, BENCHMARK, seeds_of=lambda family: 2, name_of=name_of)
    assert {(v.condition, v.metric): v.value for v in found}["mine", "Avg@4"] == 50.0
    prefixes = {"first": ConditionName("cut", prefix=10), "second": ConditionName("second")}
    lengths = rows.assign(bank_tokens=np.tile(np.repeat([9, 10, 11], 4), 2))
    (cut,) = truncated_banks(lengths, MODEL, BENCHMARK, name_of=prefixes.__getitem__)
    assert (cut.condition, cut.value) == ("first", 4)


def test_truncated_banks_are_counted_from_their_lengths() -> None:
    grid = np.ones((3, 4), dtype=bool)
    frames = [grid_rows(MODEL, BENCHMARK, name, 2, grid, np.arange(3)) for name in ("stair", "stair_prefix-2048")]
    rows = pd.concat(frames, ignore_index=True)
    (full, prefix) = truncated_banks(rows, MODEL, BENCHMARK)
    assert isinstance(full.value, Gap)
    assert isinstance(prefix.value, Gap)
    lengths = np.tile(np.repeat([1000, 2048, 5000], 4), 2)
    (full, prefix) = truncated_banks(rows.assign(bank_tokens=lengths), MODEL, BENCHMARK)
    assert (full.value, prefix.value, prefix.unit) == (0, 4, "inputs of 12")


def test_any_prefix_tells_the_bank_lengths_where_the_full_bank_has_no_rows() -> None:
    grid = np.ones((3, 4), dtype=bool)
    frames = [grid_rows(MODEL, BENCHMARK, f"stair_prefix-{limit}", 2, grid, np.arange(3)) for limit in (2048, 8192)]
    rows = pd.concat(frames, ignore_index=True).assign(bank_tokens=np.tile(np.repeat([1000, 2049, 9000], 4), 2))
    (short, long) = truncated_banks(rows.drop(index=0), MODEL, BENCHMARK)
    assert (short.value, short.unit) == (8, "inputs of 12"), "the other prefix has the response that the first lacks"
    assert long.value == 4
    unknown = {value.value for value in truncated_banks(rows.assign(bank_tokens=None), MODEL, BENCHMARK)}
    assert unknown == {Gap(f"{MODEL}, {BENCHMARK}: no rows of stair, whose bank lengths count")}


def test_the_gaps_of_a_condition_have_one_reason(rows: pd.DataFrame) -> None:
    """A trajectory that is cut at T3 lacks T4 too: that is told once, with the cause of the first."""
    cut = (rows["condition"] == "stair") & (rows["problem_id"] == "problem-2") & (rows["sample"] == 1)
    other = (rows["condition"] == "stair") & (rows["turn"] == 4) & (rows["problem_id"] == "problem-0")
    key = TurnKey(MODEL, BENCHMARK, "stair", 3)
    reasons = {key: {("problem-2", 1): "out of memory"}, key._replace(turn=4): {("problem-2", 1): "T3 is missing"}}
    lost = rows[~(cut & (rows["turn"] > 2)) & ~(other & (rows["sample"] == 0))]
    responses = Responses.from_frame(lost, reasons=reasons)
    first = "T3: 1 of 24 responses missing, first problem 'problem-2', sample 1 (out of memory)"
    for turn in ("T3", "T4", "T2-T4"):
        assert value(responses, "stair", turn) == Gap(f"{MODEL}, {BENCHMARK}, stair, {first}; T4: 2 of 24")
    assert isinstance(value(responses, "stair", "T2"), float)


def test_gaps_are_not_numbers_in_a_table(rows: pd.DataFrame) -> None:
    table = frame_of(turn_metrics(Responses.from_frame(rows.iloc[1:])))
    (row,) = table[(table["condition"] == "vanilla") & (table["metric"] == "Avg@4")].to_dict("records")
    assert math.isnan(row["value"])
    assert "1 of 24 responses missing" in row["gap"]


def test_a_problem_that_fails_everywhere_does_not_shrink_the_denominator(rows: pd.DataFrame) -> None:
    lost = rows["problem_id"] == "problem-2"
    reasons = {
        TurnKey(MODEL, BENCHMARK, str(condition), int(turn)): {
            ("problem-2", sample): "its text ends the process" for sample in range(4)
        }
        for condition, turn in rows.loc[lost, ["condition", "turn"]].drop_duplicates().to_numpy()
    }
    responses = Responses.from_frame(rows[~lost], reasons=reasons)
    for condition, turn in (("vanilla", "T1"), ("native", "T2"), ("stair", "T4")):
        assert isinstance(value(responses, condition, turn), Gap)
