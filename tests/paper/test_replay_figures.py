"""Figures of a replay: the paper's names of their numbers, what is drawn, and the reasons for missing numbers."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.replay import REPLAY_PARTS
from stair.config.resolve import resolve
from stair.paper.figures.figure import Figure, write
from stair.paper.figures.style import GROUPS as STYLES
from stair.paper.labels import Labels
from stair.paper.make import build_figure
from stair.paper.replay_numbers import COLUMNS, DIRECTIONS, GROUPS, ReplayNumbers
from stair.paper.tidy import tidy_csv
from stair.pipeline.inputs import RuleInputs
from stair.pipeline.jobs import stage_files
from stair.stages.replay.analysis.block_intervals import Ends, block_interval
from stair.stages.replay.analysis.decomposition import VIEWS
from stair.stages.replay.analysis.geometry import WHITENED
from stair.stages.replay.analysis.read_prediction import READS, SHUFFLED
from stair.stages.replay.analysis.statistics_table import Quantity, Statistic, write_statistics
from stair.stages.replay.measurement.categories import CATEGORIES
from stair.statistics.grid import Responses
from tests.paper.sources import figure_of
from tests.paper.test_figures import assert_apart, extents, lines
from tests.statistics.paper_rows import PAPER_VALUES, rows_of_main_conditions

ROOT = Path(__file__).parents[2]
MODEL = "qwen3-4b-instruct"
LAYERS = 36
ENDS = Ends(40.0, 60.0, "95%; 1000 resamples of 17 whole source blocks; centered percentiles")
REPLAY_FIGURES = {
    "historical_computation": ["attention", "geometry"],
    "attention": ["attention"],
    "neighborhood": ["geometry"],
    "read_prediction": ["read_prediction"],
}
"""The figures of a replay, each with the parts that it shows."""
ARTIFACTS = "fig:(historical-computation|appendix-(neighborhood|read-prediction))"


@pytest.fixture(scope="module")
def config() -> Config:
    return resolve(ROOT, {"run": "paper"})


def all_statistics(
    sizes: tuple[int, ...] = (8, 16, 32), ends: Ends = ENDS, gap: str | None = None
) -> Iterator[Statistic]:
    """Statistics of a run with the paper's layers; with `gap`, overlaps have it instead of a value."""
    generator = np.random.default_rng(3)
    for group in GROUPS:
        for name, count in (("current problems", 128.0), ("histories", 32.0), ("source blocks", 17.0)):
            yield Statistic(group, "size", name, count)
        for layer in range(LAYERS):
            for of in CATEGORIES:
                printed = of == "assistant" and layer in (3, 19)
                mass = 50 + 10 * float(generator.normal())
                yield Statistic(group, "attention mass", of, mass, "%", layer, ends=ends if printed else None)
            yield Statistic(group, "displacement norm", "", 2.0 + 1.7 * layer, "", layer)
            for part, share in (("mean", 60.0), ("problems", 20.0), ("histories", 19.31), ("interaction", 0.69)):
                yield Statistic(group, "energy", part, share, "%", layer)
            for view in (*VIEWS, WHITENED) if layer == 19 else ("interaction",):
                for size in sizes if layer == 19 else sizes[:1]:
                    pair: tuple[tuple[Quantity, float], ...] = (("overlap", 48.0), ("shuffled overlap", 12.0))
                    for quantity, share in pair:
                        value = None if gap else share + size / 4
                        yield Statistic(group, quantity, view, value, "%", layer, size, gap=gap)
    for direction in DIRECTIONS:
        for place, layer in enumerate((3, 11, 19, 27)):
            yield Statistic(direction, "base R2", "", 0.4, "", layer)
            for of in (*READS, *SHUFFLED) if place == 0 else READS[:1]:
                yield Statistic(direction, "incremental R2", of, 0.01 * float(generator.normal()), "", layer)


def numbers_of(config: Config, statistics: Iterator[Statistic]) -> ReplayNumbers:
    replay = config.replay
    assert replay is not None and replay.analysis is not None
    return ReplayNumbers(MODEL, "math500", replay.layers, replay.analysis, replay.depth, tuple(statistics))


@pytest.fixture(scope="module")
def numbers(config: Config) -> ReplayNumbers:
    return numbers_of(config, all_statistics())


@cache
def paper_responses() -> Responses:
    return Responses.from_frame(rows_of_main_conditions())


def drawn(name: str, numbers: ReplayNumbers, config: Config) -> Figure:
    return figure_of(name, config, responses=paper_responses(), replay=numbers)


@pytest.fixture(scope="module")
def figures(numbers: ReplayNumbers, config: Config) -> dict[str, Figure]:
    return {name: drawn(name, numbers, config) for name in REPLAY_FIGURES}


@pytest.fixture(params=list(REPLAY_FIGURES))
def figure(request: pytest.FixtureRequest, figures: dict[str, Figure]) -> Figure:
    return figures[request.param]


# ---------------------------------------------------------------- names


def joined(text: str, artifacts: str) -> pd.DataFrame:
    """The paper's values of some artifacts, and beside them those of a CSV."""
    keys = ["artifact", "model", "benchmark", "condition", "turn", "group", "metric", "unit"]
    options = {"dtype": str, "keep_default_na": False}
    ours = pd.read_csv(io.StringIO(text), **options)  # type: ignore[call-overload]
    paper = pd.read_csv(PAPER_VALUES, **options)  # type: ignore[call-overload]
    paper = paper[paper["artifact"].str.fullmatch(artifacts)]
    return paper.merge(ours, on=keys, how="left", suffixes=("", "_ours"), validate="one_to_one")


def test_the_text_s_numbers_are_exactly_the_paper_s(numbers: ReplayNumbers, config: Config) -> None:
    printed = list(numbers.printed())
    found = joined(tidy_csv("in_text", printed, Labels.of(config)), ARTIFACTS)
    assert len(found) == len(printed) == 22
    assert found["value_ours"].notna().all(), found[found["value_ours"].isna()]["metric"].tolist()


def test_a_figure_s_csv_has_the_paper_s_numbers_once_each(
    config: Config, figures: dict[str, Figure], tmp_path: Path
) -> None:
    labels = Labels.of(config)
    for name, artifact in (
        ("historical_computation", "fig:historical-computation"),
        ("neighborhood", "fig:appendix-neighborhood"),
        ("read_prediction", "fig:appendix-read-prediction"),
    ):
        found = figures[name]
        text = tidy_csv(found.exhibit.artifact, found.values, labels, found.columns)
        assert joined(text, artifact)["value_ours"].notna().all(), name
        header = text.splitlines()[0].split(",")
        assert header[-5:] == list(COLUMNS) == ["layer", "depth", "k", "low", "high"]
    write(found, labels, lambda suffix: tmp_path / f"figure{suffix}")
    assert (tmp_path / "figure.csv").read_text(encoding="utf-8") == text
    rows = list(csv.DictReader(io.StringIO(text)))
    assert {row["layer"] for row in rows} == {"3", "11", "19", "27"}


def test_intervals_are_in_the_csv(config: Config, figures: dict[str, Figure]) -> None:
    text = tidy_csv("a", figures["attention"].values, Labels.of(config), COLUMNS)
    rows = [row for row in csv.DictReader(io.StringIO(text)) if row["low"]]
    assert {(row["metric"], row["low"], row["high"], row["depth"]) for row in rows} == {
        (f"attention mass on earlier assistant responses, layer {layer}", "40.0", "60.0", "3") for layer in (3, 19)
    }


# ---------------------------------------------------------------- what is drawn


@pytest.mark.parametrize("name", ["historical_computation", "attention", "neighborhood"])
def test_groups_are_solid_and_dashed_with_hollow_squares(figures: dict[str, Figure], name: str) -> None:
    first, second = (
        [line for axes in figures[name].drawing.axes for line in axes.lines if line.get_marker() == style["marker"]]
        for style in STYLES
    )
    assert len(first) == len(second) == 4
    assert all(line.get_linestyle() == "-" for line in first)
    assert all(line.get_linestyle() == "--" and line.get_markerfacecolor() == "none" for line in second)


def test_historical_computation_marks_the_reported_layer_and_draws_transitions(figures: dict[str, Figure]) -> None:
    found = figures["historical_computation"]
    marked = [axes for axes in found.drawing.axes if any(list(line.get_xdata()) == [19, 19] for line in axes.lines)]
    assert len(marked) == 3 and [axes.get_yscale() for axes in marked] == ["linear", "log", "linear"]
    (bars,) = [axes for axes in found.drawing.axes if axes.containers]
    up, down = ([round(float(bar.get_height()), 9) for bar in each] for each in bars.containers)
    assert (up, down) == ([37 / 20, 40 / 20, 35 / 20], [-47 / 20, -59 / 20, -60 / 20])
    (net,) = [line for line in bars.lines if line.get_marker() == "D"]
    assert [round(float(y), 9) for y in net.get_ydata()] == [-0.5, -0.95, -1.25]
    shown = " ".join(lines(found))
    assert "128 current problems" in shown and "32 three-turn histories" in shown
    assert "additive 99.31%, interaction 0.69%" in shown
    assert "interaction energy fractions 0.69% and 0.69%" in shown


def test_sizes_are_drawn_in_order_in_whatever_order_the_key_lists_them(config: Config) -> None:
    numbers = numbers_of(config, all_statistics())
    keys = numbers.analysis.model_copy(update={"neighborhoods": (16, 8, 32)})
    for axes in drawn("neighborhood", replace(numbers, analysis=keys), config).drawing.axes:
        assert [list(line.get_xdata()) for line in axes.lines] == [[8, 16, 32]] * 4
        assert axes.get_xlim()[0] < 8 and axes.get_xlim()[1] > 32


def test_transitions_of_another_model_are_named(
    numbers: ReplayNumbers, config: Config, figures: dict[str, Figure]
) -> None:
    of_another = drawn("historical_computation", replace(numbers, model="qwen3.5-4b"), config)
    own, other = (" ".join(" ".join(lines(each)).split()) for each in (figures["historical_computation"], of_another))
    labels = Labels.of(config)
    assert "D: " not in own
    assert f"{labels.model('qwen3.5-4b')}, MATH-500, problem coverage" in other
    assert f"D: {labels.model(MODEL)}, MATH-500." in other


def test_each_curve_is_drawn_from_its_own_statistics(config: Config) -> None:
    """No two numbers are equal here, so a curve of another group, category, view or direction differs."""
    values = np.random.default_rng(4).permutation(np.arange(5.0, 95.0, 0.01))
    found = [replace(each, value=float(value)) for each, value in zip(all_statistics(), values, strict=False)]
    numbers = numbers_of(config, iter(found))

    def values_of(quantity: Quantity, of: str, group: str, **keys: int) -> list[float | None]:
        chosen = [each for each in found if (each.quantity, each.of, each.group) == (quantity, of, group)]
        return [each.value for each in chosen if all(getattr(each, key) == value for key, value in keys.items())]

    def curves(axes: Axes) -> list[list[float]]:
        return [list(line.get_ydata()) for line in axes.lines if line.get_marker() != "None"]

    panels = drawn("attention", numbers, config).drawing.axes
    for axes, of in zip(panels, CATEGORIES, strict=True):
        assert curves(axes) == [values_of("attention mass", of, group) for group in GROUPS]
    panels = drawn("historical_computation", numbers, config).drawing.axes
    masses, norms, nearest = (axes for axes in panels if any(list(line.get_xdata()) == [19, 19] for line in axes.lines))
    assert curves(masses) == [values_of("attention mass", "assistant", group) for group in GROUPS]
    assert curves(norms) == [values_of("displacement norm", "", group) for group in GROUPS]
    pairs = ("shuffled overlap", "overlap")
    assert curves(nearest) == [values_of(each, "interaction", group, k=8) for each in pairs for group in GROUPS]
    panels = drawn("neighborhood", numbers, config).drawing.axes
    for axes, of in zip(panels, ("interaction", WHITENED), strict=True):
        assert curves(axes) == [values_of(each, of, group, layer=19) for each in pairs[::-1] for group in GROUPS]
    left, right = drawn("read_prediction", numbers, config).drawing.axes
    assert curves(left) == [values_of("incremental R2", "assistant", each) for each in DIRECTIONS]
    reads = (*READS, *SHUFFLED)
    assert curves(right) == [
        [value for of in reads for value in values_of("incremental R2", of, each, layer=3)] for each in DIRECTIONS
    ]


# ---------------------------------------------------------------- numbers that cannot be had


@pytest.mark.parametrize("name", list(REPLAY_FIGURES))
def test_missing_numbers_are_gaps_with_their_reason(name: str, config: Config) -> None:
    gap = "group 1: all histories are of one source block, and a pair of histories needs two"
    numbers = numbers_of(config, all_statistics(ends=block_interval(1.0, lambda: np.empty(0), 1), gap=gap))
    found = drawn(name, numbers, config)
    shown = " ".join(" ".join(lines(found)).split())
    if name in ("historical_computation", "neighborhood"):
        assert f"Not computed: {gap}." in shown and "not computable" in shown
    if name in ("historical_computation", "attention"):
        assert "No intervals: 1 source block, and an interval needs 5." in shown
    text = tidy_csv("a", found.values, Labels.of(config), COLUMNS)
    assert len(list(csv.DictReader(io.StringIO(text)))) == len(found.values)


def test_transitions_that_are_missing_are_gaps(numbers: ReplayNumbers, config: Config) -> None:
    rows = rows_of_main_conditions()
    rows = rows.drop(rows[(rows["model"] == MODEL) & (rows["condition"] == "native") & (rows["turn"] == 3)].index[:1])
    found = figure_of("historical_computation", config, responses=Responses.from_frame(rows), replay=numbers)
    assert "Not computed:" in " ".join(lines(found))
    write_values = {each.turn: each.value for each in found.values if each.metric == "net change"}
    assert write_values["T2"] == pytest.approx(-0.5)
    assert not isinstance(write_values["T3"], float)


# ---------------------------------------------------------------- the type, and the graph


def test_no_type_overlaps_and_none_leaves_the_figure(figure: Figure) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    FigureCanvasAgg(figure.drawing)  # type: ignore[no-untyped-call]
    ticks = [
        label
        for axes in figure.drawing.axes
        for axis in (axes.xaxis, axes.yaxis)
        for tick in axis.get_major_ticks()
        if tick not in axis._update_ticks()  # a tick beyond the axis's limits is not drawn
        for label in (tick.label1, tick.label2)
    ]
    assert_apart([each for each in extents(figure).items() if each[0] not in ticks], figure.drawing.bbox)


def test_a_figure_is_made_from_its_parts_and_waits_for_no_other(config: Config) -> None:
    inputs = RuleInputs(config, RunPaths.of(config))
    for name, parts in REPLAY_FIGURES.items():
        groups = inputs.figure(SimpleNamespace(figure=name))
        assert [path.stem for path in groups["replay"]] == parts
        assert (groups.keys() == {"replay"}) == (name != "historical_computation")
    rows = inputs.figure(SimpleNamespace(figure="historical_computation"))["rows"]
    assert {path.stem for path in rows} == {"vanilla", "native"}
    text = inputs.table(SimpleNamespace(table="in_text"))["statistics"]
    assert [path.stem for path in text] == list(REPLAY_PARTS)


def test_an_unanalyzed_replay_has_no_statistics(config: Config) -> None:
    assert config.replay is not None
    unanalyzed = config.model_copy(update={"replay": config.replay.model_copy(update={"analysis": None})})
    measured, analyzed = (
        {file.name for file in stage_files(each, RunPaths.of(each), "replay")} for each in (unanalyzed, config)
    )
    assert measured == {"problems.parquet", "histories.parquet", "states.sha256"}
    assert analyzed - measured == {f"{part}.parquet" for part in REPLAY_PARTS}


def test_a_figure_reads_the_stage_s_files(config: Config, tmp_path: Path) -> None:
    paths, found = RunPaths(tmp_path), list(all_statistics())
    quantities = {"attention": ("attention mass",), "read_prediction": ("base R2", "incremental R2")}
    for part in REPLAY_PARTS:
        chosen = [
            each
            for each in found
            if any(each.quantity in names for key, names in quantities.items() if key == part)
            or (part == "geometry" and not any(each.quantity in names for names in quantities.values()))
        ]
        write_statistics(paths.replay_statistics(MODEL, part), 3, chosen)
    for name in ("attention", "neighborhood", "read_prediction"):
        assert build_figure(config, paths, name).values == drawn(name, numbers_of(config, iter(found)), config).values


def test_a_printed_number_without_pairs_is_a_gap(config: Config) -> None:
    numbers = numbers_of(config, all_statistics(gap="no pairs"))
    gaps = [each for each in numbers.printed() if not isinstance(each.value, float)]
    assert len(gaps) == 8 and all("neighborhood overlap" in each.metric for each in gaps)
    assert replace(gaps[0], low=1.0).low == 1.0


def test_statistics_of_other_keys_are_refused_with_the_missing_number(config: Config) -> None:
    numbers = numbers_of(config, all_statistics(sizes=(8, 16)))
    with pytest.raises(ValueError, match=r"no overlap raw, group 1, layer 19, k 32: .* run `stair replay-statistics`"):
        drawn("neighborhood", numbers, config)
