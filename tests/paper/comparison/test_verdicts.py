"""What each kind of number is compared by, on numbers chosen by hand."""

from __future__ import annotations

from math import sqrt
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stair.config.resolve import resolve
from stair.paper.comparison.compared import Compared, Verdict, compare, spread_key
from stair.paper.comparison.ours import Ours, read_ours
from stair.paper.comparison.printed import Kind, Printed, PrintedPlace, printed_values
from stair.paper.labels import Labels
from stair.paper.tidy import tidy_csv
from stair.statistics.grid import Gap
from stair.statistics.printed_comparison import Key, Spread
from stair.statistics.values import Value

MODEL = "Qwen3.5-4B"


def place(artifact: str, metric: str, unit: str, turn: str = "", group: str = "") -> PrintedPlace:
    return PrintedPlace(artifact, MODEL, "AIME 2025", "STAIR", turn, group, metric, unit)


SETTING = Printed(place("tab:controller-configuration", "initial standard deviation", ""), "0.08838834764831845")
COUNT = Printed(place("app:replay-construction", "distinct nonempty replays", ""), "61440")
REPLAY = Printed(place("fig:historical-computation", "interaction energy fraction, layer 19", "%"), "0.69")
RUNTIME = Printed(place("tab:bank-runtime", "prefill", "ms", "T2"), "628")
RATES = [Printed(place("tab:continuous-summary", "Avg@4", "%", "T2-T4"), "52.22")]
RATES += [Printed(place("tab:turns-qwen35_4b_thinking", "Avg@4", "%", turn), "50.00") for turn in ("T2", "T3", "T4")]


def known(spreads: dict[Key, Spread] | None = None, stands_in: str | None = None, other: str | None = None) -> Any:
    reasons = {"stands_in": stands_in, "other_problems": other, "absent": "the stage is not there"}
    said = {name: lambda _, reason=reason: reason for name, reason in reasons.items()}
    return SimpleNamespace(spreads=spreads or {}, shared_spreads={}, **said)


def one(printed: Printed, ours: Ours | None, facts: Any = None) -> Compared:
    (found,) = compare([printed], {} if ours is None else {printed.place: ours}, facts or known())
    return found


def ours(value: float, low: float | None = None, high: float | None = None) -> Ours:
    return Ours(value, low, high, "a.csv")


@pytest.mark.parametrize(
    ("printed", "value", "verdict"),
    [
        (SETTING, 128**-0.5, Verdict.AGREES),
        (SETTING, 0.0884, Verdict.DIFFERS),
        (COUNT, 61440.0, Verdict.AGREES),
        (COUNT, 61441.0, Verdict.DIFFERS),
    ],
)
def test_settings_and_counts_are_equal_or_not(printed: Printed, value: float, verdict: Verdict) -> None:
    assert one(printed, ours(value)).verdict is verdict


def test_a_replay_number_is_within_the_block_interval_times_the_root_of_two() -> None:
    """The interval of one run is 0.10 to either side; the paper's number is as uncertain as ours."""
    half = 0.1 * sqrt(2.0)
    inside = one(REPLAY, ours(0.69 + half, 0.59 + half, 0.79 + half))
    assert inside.verdict is Verdict.AGREES
    assert (inside.low, inside.high) == pytest.approx((0.69 - 0.005, 0.69 + 2 * half + 0.005))
    outside = 0.69 + half + 0.006
    assert one(REPLAY, ours(outside, outside - 0.1, outside + 0.1)).verdict is Verdict.DIFFERS
    assert one(REPLAY, ours(0.69)).verdict is Verdict.NONE, "without an interval"


def test_hardware_is_printed_without_a_verdict() -> None:
    found = one(RUNTIME, ours(31.0))
    assert (found.verdict, found.ours, found.difference) == (Verdict.NONE, 31.0, -597.0)


@pytest.mark.parametrize("printed", [SETTING, COUNT, REPLAY, RUNTIME, RATES[0]])
def test_what_is_absent_or_stands_in_has_no_other_verdict(printed: Printed) -> None:
    absent = one(printed, None)
    assert (absent.verdict, absent.reason, absent.ours) == (Verdict.NOT_RUN, "the stage is not there", None)
    assert one(printed, Ours(None, None, None, "a.csv")).verdict is Verdict.NOT_RUN, "a gap"
    foreign = one(printed, ours(printed.value), known(stands_in="the model is tiny"))
    assert foreign.verdict is Verdict.STRUCTURE
    assert foreign.reason.endswith("the model is tiny") and foreign.difference is None


def test_a_sampled_number_needs_the_same_problems_and_an_interval() -> None:
    printed = RATES[0]
    spreads = {spread_key(printed.place): Spread(4.0, 100.0)}
    assert one(printed, ours(52.2), known(spreads)).verdict is Verdict.AGREES
    assert one(printed, ours(52.2), known(spreads, other="60 problems")).verdict is Verdict.NONE
    assert one(printed, ours(52.2)).verdict is Verdict.NONE


def test_sampled_numbers_decide_together() -> None:
    """A p-value of 0.03 is a difference alone, and none among four numbers of which the others agree."""
    spreads = {spread_key(printed.place): Spread(4.0, 1e6) for printed in RATES}
    apart = 2.17 * sqrt(2.0 * 4.0) + 0.005
    numbers = {printed.place: ours(printed.value) for printed in RATES}
    numbers[RATES[0].place] = ours(RATES[0].value + apart)
    alone = compare(RATES[:1], numbers, known(spreads))[0]
    among = compare(RATES, numbers, known(spreads))[0]
    assert alone.p_value == among.p_value == pytest.approx(0.03, abs=0.001)
    assert (alone.verdict, among.verdict) == (Verdict.DIFFERS, Verdict.AGREES)
    assert "outside alone" in among.reason
    # The same number in a second table is no second comparison.
    twice = Printed(RATES[0].place._replace(artifact="tab:turns-qwen35_4b_thinking"), RATES[0].text)
    pair = compare([RATES[0], twice], numbers | {twice.place: numbers[RATES[0].place]}, known(spreads))
    assert [each.verdict for each in pair] == [Verdict.DIFFERS, Verdict.DIFFERS]


def test_the_shared_t1_bank_length_joins_under_any_label_of_its_benchmark(tmp_path: Path) -> None:
    config = resolve(Path(__file__).parents[3], {"run": "tiny"})
    metric = "median bank length, shared-T1 Tiny AIME 2025"
    number = Value("qwen3.5-4b", "", "", "", "", metric, 0.007, "K tokens", "app:component-runtime")
    (tmp_path / "in_text.csv").write_text(tidy_csv("in-text", [number], Labels.of(config)))
    places = set(read_ours([tmp_path / "in_text.csv"], config))
    assert places == {each.place for each in printed_values() if "shared-T1 AIME 2025" in each.place.metric}


def test_labels_of_the_study_with_a_shared_t1_are_joined_under_the_papers(tmp_path: Path) -> None:
    """A label that only `controls.conditions` changes: the evaluation's condition of that key keeps its own."""
    changes = {"controls": {"conditions": {"native": {"label": "Plain"}, "direct_read": {"label": "Straight"}}}}
    config = resolve(Path(__file__).parents[3], {"run": "paper", **changes})
    study, evaluation = Labels.of(config, "shared_t1"), Labels.of(config)
    assert (study.condition("native"), evaluation.condition("native")) == ("Plain", "Native")
    names = {"native": "Native", "direct_read": "Direct reflected-read"}
    values = [Value("qwen3.5-4b", "aime2025", key, "T2", "", "Avg@4", 50.0, "%") for key in names]
    (tmp_path / "shared_t1.csv").write_text(tidy_csv("tab:shared-t1", values, study))
    summary = Value("qwen3.5-4b", "aime2025", "native", "T2-T4", "", "Avg@4", 50.0, "%")
    (tmp_path / "continuous_summary.csv").write_text(tidy_csv("tab:continuous-summary", [summary], evaluation))
    places = read_ours([tmp_path / "shared_t1.csv", tmp_path / "continuous_summary.csv"], config).keys()
    assert {each.condition for each in places if each.artifact == "tab:shared-t1"} == set(names.values())
    assert len(places & {each.place for each in printed_values()}) == 3


def test_files_that_cannot_be_read_are_named_with_the_remedy(tmp_path: Path) -> None:
    config = resolve(Path(__file__).parents[3], {"run": "paper"})
    path = tmp_path / "shared_t1.csv"
    with pytest.raises(ValueError, match=r"shared_t1\.csv does not exist; rebuild with: snakemake tables"):
        read_ours([path], config)
    text = tidy_csv(
        "tab:shared-t1", [Value("qwen3.5-4b", "aime2025", "native", "T2", "", "Avg@4", 50.0, "%")], Labels.of(config)
    )
    path.write_text(text.replace("50.0", "half"))
    with pytest.raises(
        ValueError, match=r"shared_t1\.csv: the number of 'Avg@4' is 'half'; delete the file and rebuild"
    ):
        read_ours([path], config)


def test_of_two_files_with_one_number_the_interval_counts_and_other_numbers_are_refused(tmp_path: Path) -> None:
    config = resolve(Path(__file__).parents[3], {"run": "paper"})

    def written(name: str, value: float | Gap, low: float | None = None, high: float | None = None) -> Path:
        number = Value("qwen3.5-4b", "aime2025", "native", "T2", "", "Avg@4", value, "%", low=low, high=high)
        path = tmp_path / name
        path.write_text(tidy_csv("tab:shared-t1", [number], Labels.of(config), ("low", "high")))
        return path

    plain, gap, other = written("a.csv", 50.0), written("c.csv", Gap("none")), written("d.csv", 51.0)
    spread, same = written("b.csv", 50.0, 40.0, 60.0), written("e.csv", 50.0)
    (number,) = read_ours([plain, spread, gap, same], config).values()
    assert number == Ours(50.0, 40.0, 60.0, "b.csv")
    with pytest.raises(ValueError, match=r"d\.csv gives 51\.0 where b\.csv gives 50\.0 "):
        read_ours([plain, spread, other], config)


def test_kinds_of_the_examples() -> None:
    kinds = [each.kind for each in (SETTING, COUNT, REPLAY, RUNTIME, RATES[0])]
    assert kinds == [Kind.SETTING, Kind.COUNT, Kind.REPLAY, Kind.HARDWARE, Kind.RATE]


def test_the_last_printed_place() -> None:
    assert [Printed(COUNT.place, text).rounding for text in ("61440", "0.69", "-0.00087", "100")] == pytest.approx(
        [0.0, 0.01, 0.00001, 0.0]
    )
