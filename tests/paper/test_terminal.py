"""Tables in the terminal: every number, with its row's name, at any width."""

from __future__ import annotations

from io import StringIO
from itertools import pairwise

import pytest
from rich.console import Console

from stair.paper.layout import Cell, Layout, Row, markdown
from stair.paper.terminal import page
from tests.paper.test_layout import SMALL

BENCHMARKS = ("Tiny MATH-500", "Tiny AIME 2025", "Tiny AMC23", "Tiny GPQA-Diamond", "Ours")
MODELS = {"Tiny Qwen3-4B Instruct": "Vanilla", "My model": "Random-reflector times zero"}


def number(*place: int) -> str:
    """Another number for each place."""
    return "{}{}.{:02}".format(*place)


WIDE = Layout(
    label="tab:wide",
    caption="Avg@4 and Pass@4 (%).",
    header=(
        (("", 1), *((benchmark, 2) for benchmark in BENCHMARKS)),
        (("Condition", 1), *((metric, 1) for _ in BENCHMARKS for metric in ("Avg@4", "Pass@4"))),
    ),
    rows=tuple(
        row
        for model, (label, first) in enumerate(MODELS.items(), start=1)
        for row in (
            Row((Cell(label),), heading=True),
            *(
                Row((Cell(name), *(Cell(number(model, line, column)) for column in range(2 * len(BENCHMARKS)))))
                for line, name in enumerate((first, "Native", "STAIR"))
            ),
        )
    ),
    notes=("From tiny models, " * 8,),
)


def lines_of(layout: Layout, width: int) -> list[str]:
    screen = StringIO()
    Console(file=screen, width=width).print(page(markdown(layout), width), soft_wrap=True)
    return screen.getvalue().splitlines()


@pytest.mark.parametrize("width", [44, 60, 80, 90, 100, 150, 400])
def test_every_number_is_beside_its_rows_name(width: int) -> None:
    lines = lines_of(WIDE, width)
    assert max(map(len, lines)) <= width
    assert not [line for line in lines if line != line.rstrip()]
    for model, first in enumerate(MODELS.values(), start=1):
        for row, name in enumerate((first, "Native", "STAIR")):
            for column in range(2 * len(BENCHMARKS)):
                (line,) = [line for line in lines if number(model, row, column) in line]
                assert line.startswith(name), "a name is whole, on the line of its numbers"
    heads = [line for line in lines if line in MODELS]
    assert heads == [*MODELS] * (len(heads) // 2), "every block names the models"


def test_two_columns_of_one_benchmark_stay_together() -> None:
    lines = lines_of(WIDE, 80)
    assert sum(line.startswith("Condition") for line in lines) > 1, "several blocks"
    for avg, passed in pairwise(number(1, 1, column) for column in range(2 * len(BENCHMARKS))):
        if int(avg[-2:]) % 2 == 0:
            assert any(avg in line and passed in line for line in lines)


def test_long_names_wrap_between_words_and_leave_room_for_numbers() -> None:
    title = "Attention and displacement persist over all of the later turns"
    row = Row((Cell("4"), Cell(title), Cell("holds"), Cell("+33.98 pp"), Cell("12/14")))
    header = ((("#", 1), ("Claim", 1), ("Verdict", 1), ("Effect", 1), ("Parts", 1)),)
    layout = Layout("claims", "Claims.", header, (row,), columns="lllrr")
    lines = lines_of(layout, 60)
    (first,) = [line for line in lines if "+33.98 pp" in line]
    assert "holds" in first and "12/14" in first
    assert " ".join(" ".join(lines).split()).count("Claim") == 2, "one block"
    words = {word for line in lines for word in line.split()}
    assert set(title.split()) <= words


def test_a_small_table() -> None:
    assert lines_of(SMALL, 60) == [
        "Accuracy (%) of T2–T4 & more.",
        "",
        "Condition  MATH_500†  MATH_500†",
        "               Avg@4     Pass@4",
        "-------------------------------",
        "A model",
        "Vanilla        50.00          –",
        "STAIR          61.25      70.00",
        "",
        "Another",
        "Native         −1.00       2.00",
        "",
        "Not reported: a response is missing.",
        "",
        "† Problems are left out.",
    ]


def test_a_page_with_text_and_a_list() -> None:
    text = "# The run\n\nTwo words.\n\n| kind | all |\n|---|---|\n| rate | 6 |\n\n- 15 values: no table\n- 6 values\n"
    shown = ["The run", "Two words.", "kind  all", "---------", "rate  6", "- 15 values:\n  no table\n- 6 values"]
    assert page(text, 14).plain.replace("\n\n", "\n") == "\n".join(shown)
    assert page(text, 14, without="Two words.").plain.startswith("The run\n\nkind")
