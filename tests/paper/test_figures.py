"""Figures: what they draw is the run's, they print, and no type lies on other type or leaves its box."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.cbook import is_math_text
from PIL import Image
from safetensors.numpy import save_file

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.resolve import resolve
from stair.paper.controllers import Controlled, read_controlled
from stair.paper.figures.diagram import Box, corner
from stair.paper.figures.figure import Figure, write
from stair.paper.figures.style import COLOURS, TEXT_WIDTH, styled
from stair.paper.labels import Labels
from stair.records.tensor_files import header_of
from stair.statistics.context_sizes import BANK, PROMPT, context_sizes
from stair.statistics.grid import Responses
from stair.statistics.values import Value
from tests.paper.sources import figure_of
from tests.statistics.paper_rows import rows_by_turn

ROOT = Path(__file__).parents[2]
NAMES = ("overview", "overview_of_three", "method", "training_scope", "training")
LONG_NOTE = "Every sentence of a run's note has to be under its figures, however many words it takes. " * 4


@pytest.fixture(scope="module")
def config() -> Config:
    return resolve(ROOT, {"run": "paper", "note": LONG_NOTE})


@pytest.fixture(scope="module")
def responses() -> Responses:
    return Responses.from_frame(rows_by_turn("tab:turns-.*"))


def sizes(models: list[str]) -> Iterator[Value]:
    for model in models:
        for turn in range(1, 5):
            yield Value(model, "", "native", f"T{turn}", "", PROMPT, 300.0 * turn, "tokens")
            yield Value(model, "", "stair", f"T{turn}", "", BANK, 63_400.0 * (turn - 1), "entries")


def controlled(model: str) -> Controlled:
    gated, heads = model != "qwen3-4b-instruct", 16 if model == "qwen3.5-4b" else 32
    dim = 4096 // heads
    return Controlled(model, (3, 11, 19), heads, 8, dim, gated, 3 * heads * dim)


@pytest.fixture(scope="module")
def run(config: Config, tmp_path_factory: pytest.TempPathFactory) -> RunPaths:
    """The files of trained controllers: weights and curves."""
    paths = RunPaths(tmp_path_factory.mktemp("run"))
    for model in config.models:
        for key in config.controllers:
            trained(paths.controller(model, key), controlled(model))
    return paths


def trained(folder: Path, facts: Controlled, steps: int = 40) -> None:
    """Weights of these sizes, and a curve of so many updates."""
    folder.mkdir(parents=True)
    shape = {name: getattr(facts, name) for name in ("query_heads", "kv_heads", "head_dim", "gated")}
    header = header_of({"kind": "reflector", "layers": facts.layers, "configuration": shape})
    normals = np.zeros((len(facts.layers), facts.query_heads, facts.head_dim), np.float32)
    save_file({"normals": normals}, folder / "controller.safetensors", header)
    columns = ("update", "loss", "validation_loss", "sessions", "responses", "tokens")
    curve = [(step, 1 / (step + 1), 1 / (step + 1), 8, 24, 3_086_420) for step in range(1, steps + 1)]
    with open(folder / "curve.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([columns, *curve])


def figure(name: str, config: Config, responses: Responses, run: RunPaths) -> Figure:
    models = list(config.models)
    if name.startswith("overview"):
        if name.endswith("three"):
            overview = config.overview.model_copy(update={"models": tuple(models)})
            config = config.model_copy(update={"overview": overview})
        return figure_of("overview", config, run, responses, sizes=tuple(sizes(models)))
    return figure_of(f"training_{models[0]}" if name == "training" else name, config, run)


@pytest.fixture(scope="module", params=NAMES)
def drawn(request: pytest.FixtureRequest, config: Config, responses: Responses, run: RunPaths) -> Figure:
    return figure(request.param, config, responses, run)


# ---------------------------------------------------------------- what is drawn is what the run has


def number(figure: Figure, metric: str, **keys: str) -> object:
    (value,) = [v.value for v in figure.values if v.metric == metric and all(getattr(v, k) == keys[k] for k in keys)]
    return value


def lines(figure: Figure) -> list[str]:
    """All type of a figure, in the order in which it was drawn."""
    return [text.get_text() for text in texts(figure)]


def test_method_draws_the_controllers_sizes(config: Config, run: RunPaths) -> None:
    drawn = figure_of("method", config, run)
    for model in config.models:
        facts = controlled(model)
        found = [number(drawn, f"controlled layer {place}", model=model) for place in (1, 2, 3)]
        assert found == [3, 11, 19]
        assert number(drawn, "learned parameters", model=model) == 12_288
        assert number(drawn, "query heads per layer", model=model) == facts.query_heads
        assert number(drawn, "output gate", model=model) == facts.gated
    shown = lines(drawn)
    at = shown.index("Qwen3.5-4B")
    assert shown[at : at + 7] == ["Qwen3.5-4B", "3, 11, 19", "16", "8", "256", "yes", "12,288"]


def test_training_scope_draws_the_control_span_and_the_banks(config: Config, run: RunPaths) -> None:
    drawn = figure_of("training_scope", config, run)
    spans = {
        v.group: (v.value, number(drawn, "supervised", group=v.group))
        for v in drawn.values
        if v.metric == "auxiliary branch"
    }
    assert spans == {
        "earlier turns": (0, 0), "user header": (1, 0), "problem": (1, 0), "assistant prefix": (1, 0), "response": (0, 1),
    }  # fmt: skip
    turns = [
        (number(drawn, "supervised", turn=t), number(drawn, "turns in the bank", turn=t))
        for t in ("T1", "T2", "T3", "T4")
    ]
    assert turns == [(0, 0), (1, 1), (1, 2), (1, 3)]
    assert number(drawn, "supervised tokens", model="qwen3.5-4b") == 123_456_800
    assert "123,456,800" in lines(drawn)


def test_overview_draws_prompts_banks_and_scores(config: Config, responses: Responses, run: RunPaths) -> None:
    drawn = figure("overview", config, responses, run)
    shown = lines(drawn)
    for model in config.overview.models:
        assert number(drawn, PROMPT, model=model, turn="T4") == 1200
        assert number(drawn, BANK, model=model, turn="T4") == 190_200
    assert {v.model for v in drawn.values} == set(config.overview.models)
    assert shown.count("190.2K") == shown.count("1,200") == 2
    bar = number(drawn, "Avg@4", model="qwen3-4b-instruct", benchmark="math500", condition="native")
    assert round(float(str(bar)), 2) == 94.10
    assert {"94.1", "95.0", "94.6"} <= set(shown)


def test_an_arrow_runs_from_edge_to_edge() -> None:
    box, beside, above, far = Box(0, 0, 10, 10), Box(20, 4, 10, 2), Box(2, 30, 4, 4), Box(20, 30, 4, 4)
    assert (box.facing(beside), beside.facing(box)) == ((10, 5), (20, 5))
    assert (box.facing(above), above.facing(box)) == ((4, 10), (4, 30))
    assert corner(box, far) == (22, 5)
    turned = Box(*corner(box, far))
    assert (box.facing(turned), far.facing(turned)) == ((10, 5), (22, 30))


def test_a_model_without_rows_has_dashes(config: Config) -> None:
    nothing = Responses.from_frame(rows_by_turn("tab:turns-qwen35_4b_thinking"))
    one = config.model_copy(update={"overview": config.overview.model_copy(update={"models": ("qwen3.5-4b",)})})
    drawn = figure_of("overview", one, responses=nothing)
    assert lines(drawn).count("–") == 6


def test_context_sizes_are_medians_over_all_benchmarks() -> None:
    rows = pd.DataFrame(
        {
            "model": "m",
            "condition": ["native"] * 3 + ["stair"] * 3,
            "turn": 2,
            "prompt_tokens": [10, 30, 20, 1, 2, 9],
            "bank_tokens": pd.array([None] * 3 + [5, 7, 100], dtype="Int32"),
        }
    )
    found = {(v.condition, v.turn, v.metric): v.value for v in context_sizes(rows)}
    assert found == {("native", "T2", PROMPT): 20, ("stair", "T2", PROMPT): 2, ("stair", "T2", BANK): 7}


def test_facts_come_from_the_controllers_own_file(tmp_path: Path) -> None:
    path = tmp_path / "controller.safetensors"
    shape = {"query_heads": 4, "kv_heads": 2, "head_dim": 8, "gated": True}
    header = {"kind": "reflector", "layers": [3, 7], "configuration": shape}
    save_file({"normals": np.zeros((2, 4, 8), np.float32)}, path, header_of(header))
    assert read_controlled("m", tmp_path) == Controlled("m", (3, 7), 4, 2, 8, True, 64)
    save_file({"scales": np.zeros((2, 4, 8), np.float32)}, path, header_of(header | {"kind": "bank_free"}))
    with pytest.raises(ValueError, match=r"holds 'bank_free'.*expected 'reflector'"):
        read_controlled("m", tmp_path)


@pytest.mark.parametrize("note", ["It costs $5.", "It costs $5 or $6_a^b."])
def test_a_dollar_in_a_note_or_label_is_text(note: str, run: RunPaths, tmp_path: Path) -> None:
    settings = {"run": "paper", "note": note, "models": {"qwen3.5-4b": {"label": "Model $4$"}}}
    config = resolve(ROOT, settings)
    drawn = figure_of("method", config, run)
    write(drawn, Labels.of(config), lambda suffix: tmp_path / f"method{suffix}")
    shown = {text.replace(r"\$", "$") for text in lines(drawn) if not is_math_text(text)}
    assert {note, "Model $4$"} <= shown
    assert "Model $4$" in (tmp_path / "method.csv").read_text()


# ---------------------------------------------------------------- it prints


def test_files_are_of_the_texts_width_with_embedded_fonts(drawn: Figure, config: Config, tmp_path: Path) -> None:
    table, pdf, _ = written(drawn, config, tmp_path)
    assert b"/CIDFontType2" in pdf and b"/FontFile2" in pdf, "TrueType, Type 42"
    assert b"/Type3" not in pdf
    assert b"Date" not in pdf
    (box,) = re.findall(rb"/MediaBox \[ ?0 0 ([\d.]+) ", pdf)
    assert float(box) == pytest.approx(TEXT_WIDTH * 72)
    rows = list(csv.DictReader(io.StringIO(table.decode())))
    assert len(rows) == len(drawn.values)


def written(figure: Figure, config: Config, folder: Path) -> list[bytes]:
    write(figure, Labels.of(config), lambda suffix: folder / f"figure{suffix}")
    return [(folder / f"figure{suffix}").read_bytes() for suffix in (".csv", ".pdf", ".png")]


def test_drawn_again_a_figure_has_equal_bytes(
    config: Config, responses: Responses, run: RunPaths, tmp_path: Path
) -> None:
    first, again = (written(figure("overview", config, responses, run), config, tmp_path) for _ in range(2))
    assert first == again


def test_conditions_differ_in_grey() -> None:
    from matplotlib.colors import to_rgb

    pixels = [tuple(round(255 * part) for part in to_rgb(colour)) for colour in COLOURS.values()]
    greys = sorted(Image.new("RGB", (1, 1), pixel).convert("L").getpixel((0, 0)) for pixel in pixels)  # type: ignore[type-var]
    assert all(after - before >= 40 for before, after in itertools.pairwise(greys)), greys


# ---------------------------------------------------------------- its type


def texts(figure: Figure) -> list[object]:
    from matplotlib.text import Text

    return [
        text
        for text in figure.drawing.findobj(Text)
        if (text.get_visible() and text.get_text().strip() and text.axes is None)
        or (text.axes and text.axes.get_visible())
        if text.get_text().strip() and text.get_visible()
    ]


def extents(figure: Figure) -> dict[object, object]:
    """Where the type of a figure lies, in pixels, of all that is really drawn."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    with styled():
        # At the resolution of the file; once one is written, the drawing has the canvas of that file's format.
        figure.drawing.set_dpi(300)
        renderer = FigureCanvasAgg(figure.drawing).get_renderer()
        figure.drawing.draw(renderer)
        hidden = {
            label
            for axis in figure.drawing.axes
            for part in (axis.xaxis, axis.yaxis)
            for tick in part.get_major_ticks()
            for label in (tick.label1, tick.label2)
            if not axis.axison or not min(part.get_view_interval()) <= tick.get_loc() <= max(part.get_view_interval())
        }
        return {
            text: text.get_window_extent(renderer)
            for text in texts(figure)
            if text not in hidden and (text.axes is None or text.axes.axison or text in text.axes.texts)
        }


def assert_apart(boxes: list[tuple[object, object]], page: object) -> None:
    """No type overlaps other type or leaves the figure."""
    assert len(boxes) > 10
    for text, box in boxes:
        inside = (
            box.x0 >= page.x0 - 0.5 and box.x1 <= page.x1 + 0.5 and box.y0 >= page.y0 - 0.5 and box.y1 <= page.y1 + 0.5
        )
        assert inside, text
    for (one, first), (other, second) in itertools.combinations(boxes, 2):
        wide = min(first.x1, second.x1) - max(first.x0, second.x0)
        high = min(first.y1, second.y1) - max(first.y0, second.y0)
        assert wide <= 0 or high <= 0.5, (one, other, wide, high)


def test_no_type_overlaps_and_none_leaves_the_figure(drawn: Figure) -> None:
    assert_apart(list(extents(drawn).items()), drawn.drawing.bbox)


def test_type_is_large_enough_to_read(drawn: Figure) -> None:
    assert min(text.get_fontsize() for text in extents(drawn)) >= 5.5


def test_type_in_a_box_lies_within_it(drawn: Figure) -> None:
    from matplotlib.patches import Rectangle

    boxes = extents(drawn)
    patches = [
        (patch, patch.get_window_extent())
        for axis in drawn.drawing.axes
        if not axis.axison
        for patch in axis.patches
        if isinstance(patch, Rectangle)
    ]
    for text, box in boxes.items():
        middle = ((box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2)
        around = [area for _, area in patches if area.contains(*middle)]
        if around:
            area = min(around, key=lambda each: each.width * each.height)
            assert area.x0 <= box.x0 and box.x1 <= area.x1, text
            assert area.y0 <= box.y0 and box.y1 <= area.y1, text
