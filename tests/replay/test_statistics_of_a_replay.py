"""The analysis of stored measurements: every statistic beside loops, its intervals, and the numbers that cannot be had."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from stair.config.replay import ReplayAnalysis, Whitening
from stair.models.architecture import describe
from stair.models.published import CONFIGS
from stair.stages.replay.analysis import attention_masses, geometry, read_prediction
from stair.stages.replay.analysis.block_intervals import LEAST_BLOCKS, block_interval
from stair.stages.replay.analysis.crossing import Crossing
from stair.stages.replay.analysis.decomposition import VIEWS
from stair.stages.replay.analysis.geometry import WHITENED, Geometry, LayerGeometry, Name
from stair.stages.replay.analysis.random_by_name import gaussian_projection, named_permutation, project
from stair.stages.replay.analysis.read_prediction import READS, RESAMPLED, SHUFFLED, LayerReads
from stair.stages.replay.analysis.statistics_table import Statistic, read_statistics, write_statistics
from stair.stages.replay.measurement.categories import CATEGORIES
from tests.replay import naive_analysis as naive
from tests.replay.design_rules import replay_of
from tests.replay.stored_states import DEPTH, Stored, stored

KEYS = ReplayAnalysis(
    reported_layer=1,
    neighborhoods=(3, 5),
    history_pairs=4,
    shuffles=2,
    whitening=Whitening(dimension=4),
    read_dimension=3,
    resamples=100,
)
REPLAY = replay_of("paper").model_copy(update={"layers": (0, 1), "analysis": KEYS})
ARCHITECTURE = replace(describe(CONFIGS["qwen3-4b-instruct"]), layers=3, full_attention_layers=(0, 1, 2))
BLOCKS = [[1, 1, 2, 3, 4, 5, 5, 6], [1, 2, 3, 4, 5, 6, 7]]
Crossings = list[Crossing]


@pytest.fixture(scope="module")
def groups() -> list[Stored]:
    return [Stored(number, blocks) for number, blocks in enumerate(BLOCKS, start=1)]


@pytest.fixture(scope="module")
def crossings(groups: list[Stored], tmp_path_factory: pytest.TempPathFactory) -> Crossings:
    return stored(tmp_path_factory.mktemp("states"), groups)


@pytest.fixture(scope="module")
def found(crossings: Crossings) -> list[Statistic]:
    return statistics(crossings)


def statistics(crossings: Crossings) -> list[Statistic]:
    """All parts of the analysis."""
    parts = (attention_masses, geometry, read_prediction)
    return [each for part in parts for each in part.of_replay(crossings, ARCHITECTURE, REPLAY)]


def number(statistics: list[Statistic], quantity: str, of: str = "", **keys: object) -> Statistic:
    (found,) = (
        each
        for each in statistics
        if (each.quantity, each.of) == (quantity, of) and all(getattr(each, key) == keys[key] for key in keys)
    )
    return found


def cells_of(group: Stored, layer: int) -> list[list[naive.Vector]]:
    return naive.displacements(group.tensors["block_outputs"][layer], group.references["block_outputs"][layer])


def folds_of(geometry: Geometry) -> list[list[int]]:
    return [fold.anchors.tolist() for fold in geometry.folds]


def check_masses(found: list[Statistic], group: Stored, crossing: Crossing) -> None:
    """Every category's mass in every layer and its interval beside the loops; the earlier assistant's alone have intervals."""
    # The loops have layers behind the histories.
    masses = group.tensors["masses"].transpose(1, 2, 0, 3)
    for layer in range(3):
        for place, category in enumerate(CATEGORIES):
            one = number(found, "attention mass", category, layer=layer, group=crossing.label)
            by_history = [100 * mass for mass in naive.history_masses(masses, layer, place)]
            assert one.value == pytest.approx(median(by_history), rel=1e-12)
            if category != "assistant" or layer == 2:
                assert one.ends is None
                continue
            medians = [median(by_history[h] for h in chosen) for chosen in crossing.resamples(KEYS)]
            low, high = naive.percentage_interval(median(by_history), medians, len(set(group.blocks)))
            assert one.ends is not None
            assert (one.ends.low, one.ends.high) == (pytest.approx(low, rel=1e-12), pytest.approx(high, rel=1e-12))


def test_masses_of_every_category_equal_the_loops(
    found: list[Statistic], groups: list[Stored], crossings: Crossings
) -> None:
    for group, crossing in zip(groups, crossings, strict=True):
        check_masses(found, group, crossing)


def test_the_interval_of_a_mass_is_within_0_and_100_percent(tmp_path: Path) -> None:
    wide = [Stored(number, blocks) for number, blocks in enumerate(BLOCKS, start=1)]
    # Few of the second group's blocks have nearly all mass, so that its ends lie beyond both limits.
    shares = np.array([0, 0, 0, 0.03, 0.9, 0.9, 0.9], np.float32)
    wide[1].tensors["masses"][..., CATEGORIES.index("assistant")] = shares
    crossing = stored(tmp_path, wide)[1]
    found = list(attention_masses.of_replay([crossing], ARCHITECTURE, REPLAY))
    check_masses(found, wide[1], crossing)
    ends = number(found, "attention mass", "assistant", layer=0).ends
    assert ends is not None and (ends.low, ends.high) == (0, 100)


def test_masses_are_named_by_the_models_layer(found: list[Statistic], crossings: Crossings) -> None:
    """They are stored by place among the full-attention layers."""
    hybrid = replace(ARCHITECTURE, full_attention_layers=(3, 7, 11))
    settings = REPLAY.model_copy(update={"layers": (7, 3), "analysis": KEYS.model_copy(update={"reported_layer": 11})})
    named = list(attention_masses.of_replay(crossings, hybrid, settings))
    assert {(each.group, each.layer) for each in named if each.ends is not None} == {
        (group, layer) for group in ("group 1", "group 2") for layer in (7, 11)
    }
    masses = [each for each in found if each.quantity == "attention mass"]
    assert [(each.value, each.of) for each in named] == [(each.value, each.of) for each in masses]
    assert [each.layer for each in named[: 3 * 4 : 4]] == [3, 7, 11]


@pytest.mark.parametrize("place", [0, 1])
def test_norms_energies_and_overlaps_equal_the_loops(
    place: int, found: list[Statistic], groups: list[Stored], crossings: Crossings
) -> None:
    group, geometry = groups[place], Geometry(crossings[place], KEYS)
    found = [each for each in found if each.group == crossings[place].label]
    assert number(found, "size", "current problems").value == 8
    assert number(found, "size", "source blocks").value == len(set(group.blocks))
    pairs = naive.pairs(group.lengths, group.blocks, group.histories, 4)
    folds, resamples = folds_of(geometry), list(crossings[place].resamples(KEYS))
    for layer in range(3):
        cells = cells_of(group, layer)
        norm = number(found, "displacement norm", layer=layer)
        assert norm.value == pytest.approx(naive.median_norm(cells), rel=1e-12)
        assert (norm.ends is not None) == (layer in (1, 2))
        if norm.ends is not None:
            drawn = [naive.median_norm([[row[h] for h in chosen] for row in cells]) for chosen in resamples]
            low, _ = naive.percentage_interval(naive.median_norm(cells), drawn, len(set(group.blocks)))
            assert norm.ends.low == pytest.approx(low, rel=1e-12)
        fraction = number(found, "energy", "interaction", layer=layer)
        assert fraction.value == pytest.approx(100 * naive.interaction_fraction(cells), rel=1e-11)
        mu, a, b, e = naive.parts(cells)
        total = sum(naive.squared(cell) for row in cells for cell in row)
        assert number(found, "total energy", layer=layer).value == pytest.approx(total, rel=1e-12)
        for part, energy in (
            ("mean", len(a) * len(b) * naive.squared(mu)),
            ("problems", len(b) * sum(map(naive.squared, a))),
            ("histories", len(a) * sum(map(naive.squared, b))),
        ):
            assert number(found, "energy", part, layer=layer).value == pytest.approx(100 * energy / total, rel=1e-11)
        additive = [[naive.plus(mu, a[x], b[h]) for h in range(len(b))] for x in range(len(a))]
        views = {"raw": cells, "additive": additive, "interaction": e}
        for name in VIEWS if layer == 1 else ("interaction",):
            for size in KEYS.neighborhoods if layer == 1 else (3,):
                one = number(found, "overlap", name, layer=layer, k=size)
                wanted = 1.0 if name == "additive" else naive.overlap(views[name], group.names, folds, pairs, size)
                assert one.value == pytest.approx(100 * wanted, abs=1e-9)
                if name == "additive":
                    continue  # rounding decides between near ties of the loops
                controls = [
                    naive.overlap(
                        *(views[name], group.names, folds, pairs, size),
                        [geometry.shuffles(*pair)[seed].tolist() for pair in pairs],
                    )
                    for seed in range(2)
                ]
                control = number(found, "shuffled overlap", name, layer=layer, k=size)
                assert control.value == pytest.approx(100 * sum(controls) / 2, abs=1e-9)
    assert len([each for each in found if each.quantity == "overlap"]) == 2 + 4 * 2


def test_whitened_overlaps_equal_the_loops(found: list[Statistic], groups: list[Stored], crossings: Crossings) -> None:
    group, geometry = groups[0], Geometry(crossings[0], KEYS)
    e = np.array(naive.parts(cells_of(group, 1))[3])
    projected = project(gaussian_projection(4, 6, KEYS.seed, "whitening"), e)
    pairs, wanted = naive.pairs(group.lengths, group.blocks, group.histories, 4), 0.0
    for fold in geometry.folds:
        view = naive.whitened(projected, fold.candidates.tolist())
        wanted += naive.overlap(view.tolist(), group.names, [fold.anchors.tolist()], pairs, 3) / 4
    one = number(found, "overlap", WHITENED, k=3, group="group 1")
    assert one.value == pytest.approx(100 * wanted, abs=1e-9)


def shuffled_cell(group: Stored, across: str | None, x: int, h: int) -> tuple[int, int]:
    """The cell whose read a cell has."""
    seed = (KEYS.seed, "reads", group.number)
    if across == "histories":
        return x, int(named_permutation(group.histories, *seed, across, group.names[x])[h])
    if across == "problems":
        return int(named_permutation(group.names, *seed, across, group.histories[h])[x]), h
    return x, h


Side = tuple[list[naive.Vector], list[naive.Vector]]


def naive_side(group: Stored, place: int, of: str, histories: Sequence[int]) -> Side:
    """Features and targets of the cells of some histories, each as often as it is listed."""
    layer, category = group.measured[place], CATEGORIES.index(of.split(",")[0])
    projection = gaussian_projection(3, group.hidden, KEYS.seed, "reads")
    xs, ys = [], []
    for x in range(group.problems):
        for h in histories:
            own, other = shuffled_cell(group, SHUFFLED.get(of), x, h)
            reference = group.references["block_outputs"][layer - 1, x] if layer else group.references["embedding"][x]
            inputs = group.tensors["block_outputs"][layer - 1, x, h] if layer else reference
            read = group.tensors["reads"][place, own, other, category]
            masses = group.tensors["masses"][layer, x, h]
            xs.append(naive.features(projection, inputs, reference, group.lengths[h], masses, read))
            mlp, alone = group.tensors["next_mlp"][place, x, h], group.references["next_mlp"][place, x]
            ys.append((mlp.astype(float) - alone.astype(float)).tolist())
    return xs, ys


def test_increments_of_every_feature_equal_the_loops(found: list[Statistic], groups: list[Stored]) -> None:
    features = [(0, of) for of in (*READS, *SHUFFLED)] + [(1, "assistant")]
    assert len([each for each in found if each.quantity == "incremental R2"]) == 2 * len(features)
    for place, of in features:
        sides = [naive_side(group, place, of, range(len(group.blocks))) for group in groups]
        for fit, test in ((0, 1), (1, 0)):
            base, full = (naive.read_scores(sides[fit], sides[test], kept) for kept in (10, 13))
            label = f"fit group {fit + 1}, test group {test + 1}"
            one = number(found, "incremental R2", of, layer=place, group=label)
            assert one.value == pytest.approx(full - base, abs=1e-9)
            assert (one.ends is not None) == (of in RESAMPLED)
            if of == "assistant":
                assert number(found, "base R2", layer=place, group=label).value == pytest.approx(base, abs=1e-9)


def test_the_numbers_of_a_resample_are_those_of_copied_histories(groups: list[Stored], crossings: Crossings) -> None:
    """Decomposition, pairs, whitening and neighborhoods of a resample, from cells that are copied one by one."""
    group, geometry = groups[0], Geometry(crossings[0], KEYS)
    sizes = [2, 3]
    at_layer = LayerGeometry(geometry, crossings[0].displacements(1), sizes)
    cells, folds = cells_of(group, 1), folds_of(geometry)
    for chosen in list(crossings[0].resamples(KEYS))[:6]:
        found = at_layer.numbers(chosen, ("raw", "interaction", WHITENED))
        copied = [[row[h] for h in chosen] for row in cells]
        pairs = naive.pairs(*([of[h] for h in chosen] for of in (group.lengths, group.blocks, group.histories)), 4)
        assert all(group.blocks[chosen[one]] != group.blocks[chosen[other]] for one, other in pairs)
        e = naive.parts(copied)[3]
        fraction = found[Name("energy", "interaction", "%")]
        assert fraction == pytest.approx(100 * naive.interaction_fraction(copied), rel=1e-11)
        by_pair = [geometry.shuffles(int(chosen[one]), int(chosen[other])) for one, other in pairs]
        shuffles = [[orders[seed].tolist() for orders in by_pair] for seed in range(2)]
        own = project(gaussian_projection(4, 6, KEYS.seed, "whitening"), np.array(e))
        views = {"raw": [(copied, fold) for fold in folds], "interaction": [(e, fold) for fold in folds]}
        views[WHITENED] = [
            (naive.whitened(own, fold.candidates.tolist()).tolist(), fold.anchors.tolist()) for fold in geometry.folds
        ]
        for view, of_folds in views.items():
            for size in sizes:
                wanted = [naive.overlap(shown, group.names, [fold], pairs, size) for shown, fold in of_folds]
                assert found[Name("overlap", view, "%", size)] == pytest.approx(100 * np.mean(wanted), abs=1e-9)
                controls = [
                    naive.overlap(shown, group.names, [fold], pairs, size, orders)
                    for shown, fold in of_folds
                    for orders in shuffles
                ]
                control = found[Name("shuffled overlap", view, "%", size)]
                assert control == pytest.approx(100 * np.mean(controls), abs=1e-9)


def test_the_resampled_increments_are_those_of_copied_histories_in_both_groups(
    crossings: Crossings, monkeypatch: pytest.MonkeyPatch
) -> None:
    resampled, interval = list[Sequence[float]](), block_interval

    def kept(estimate: float, numbers: Sequence[float], blocks: int) -> object:
        resampled.append(numbers)
        return interval(estimate, numbers, blocks)

    monkeypatch.setattr(read_prediction, "block_interval", kept)
    found = [each for each in read_prediction.of_replay(crossings, ARCHITECTURE, REPLAY) if each.ends is not None]
    assert len(found) == len(resampled) == 2 * (len(RESAMPLED) + 1)
    draws = [list(crossing.resamples(KEYS))[:3] for crossing in crossings]
    for each, numbers in zip(found, resampled, strict=True):
        assert each.layer is not None
        layer, fit = each.layer, int(each.group.startswith(f"fit {crossings[1].label}"))
        groups = [LayerReads(crossing, layer, layer, layer, KEYS) for crossing in crossings]
        base, of = groups[0].base.shape[-1], each.of
        for number, draw in enumerate(zip(*draws, strict=True)):
            sides = [
                tuple(cells[:, chosen].reshape(-1, cells.shape[-1]).tolist() for cells in (x.features(of), x.targets))
                for x, chosen in zip(groups, draw, strict=True)
            ]
            every = len(sides[0][0][0])
            wanted = [naive.read_scores(sides[fit], sides[1 - fit], width) for width in (base, every)]
            assert numbers[number] == pytest.approx(wanted[1] - wanted[0], abs=1e-7), each


def test_intervals_contain_their_numbers_and_are_of_printed_numbers_alone(found: list[Statistic]) -> None:
    with_ends = [each for each in found if each.ends is not None]
    assert {(each.quantity, each.of) for each in with_ends} == {
        ("attention mass", "assistant"),
        ("displacement norm", ""),
        ("energy", "interaction"),
        *(("overlap", view) for view in ("raw", "interaction", WHITENED)),
        *(("shuffled overlap", view) for view in ("interaction", WHITENED)),
        ("incremental R2", "assistant"),
        ("incremental R2", "user"),
        ("incremental R2", "assistant, shuffled across histories"),
    }
    for each in with_ends:
        assert each.ends is not None and each.ends.low is not None and each.ends.high is not None
        assert each.value is not None and each.ends.low <= each.value <= each.ends.high, each
        assert each.ends.low < each.ends.high
        assert "whole source blocks" in (each.ends.method or "")


def test_few_blocks_have_no_interval_and_one_has_no_pairs(tmp_path: Path) -> None:
    found = statistics(stored(tmp_path, [Stored(1, [1, 1, 1]), Stored(2, [1, 2, 3, 4])]))
    fraction = number(found, "energy", "interaction", layer=1, group="group 2")
    assert fraction.ends is not None and fraction.ends.low is None
    assert fraction.ends.method == f"none: 4 source blocks, and an interval needs {LEAST_BLOCKS}"
    assert number(found, "overlap", "interaction", layer=1, k=3, group="group 2").value is not None
    gaps = [each for each in found if each.quantity in ("overlap", "shuffled overlap") and each.group == "group 1"]
    assert len(gaps) == 2 * (2 + 4 * 2)
    assert {each.gap for each in gaps} == {
        "group 1: all histories are of one source block, and a pair of histories needs two"
    }
    ends = number(found, "incremental R2", "assistant", layer=0, group="fit group 2, test group 1").ends
    assert ends is not None and ends.method == f"none: 1 source block, and an interval needs {LEAST_BLOCKS}"


def test_states_that_no_history_moves_have_gaps(tmp_path: Path) -> None:
    groups = [Stored(number, blocks) for number, blocks in enumerate(BLOCKS, start=1)]
    still = groups[0]
    for name in ("block_outputs", "next_mlp"):
        still.tensors[name][:] = still.references[name][:, :, None]
    crossings = stored(tmp_path, groups)
    one_layer = replace(ARCHITECTURE, layers=1)
    energies = list(geometry.of_replay(crossings[:1], one_layer, REPLAY))
    assert number(energies, "energy", "interaction", layer=0).gap == "group 1, layer 0: no history displaces the states"
    increments = list(read_prediction.of_replay(crossings, ARCHITECTURE, REPLAY))
    gap = number(increments, "incremental R2", "user", layer=0, group="fit group 2, test group 1").gap
    assert gap == "fit group 2, test group 1, layer 0: the test group's targets do not vary"


def test_statistics_are_read_as_they_were_written(found: list[Statistic], tmp_path: Path) -> None:
    assert write_statistics(tmp_path / "all.parquet", DEPTH, found) == len(found)
    assert list(read_statistics(tmp_path / "all.parquet")) == found
