"""Rounding, and a small table in Markdown."""

from __future__ import annotations

import pytest

from stair.paper.layout import Cell, Layout, Row, markdown, read_markdown, rounded
from stair.statistics.grid import Gap


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.125, "0.12"),  # half to even
        (0.135, "0.14"),
        (2.675, "2.68"),  # as written, not as the nearest binary fraction lies
        (1.005, "1.00"),
        (94.625, "94.62"),
        (100 * 57 / 120, "47.50"),
        (100 / 3, "33.33"),
        (200 / 3, "66.67"),
        (-0.125, "−0.12"),  # with a minus, not a hyphen
        (-1e-7, "0.00"),
        (0.0, "0.00"),
        (100.0, "100.00"),
        (5, "5.00"),
        (1e-7, "0.00"),
        (Gap("why"), "--"),
    ],
)
def test_numbers_are_rounded_half_to_even(value: float | Gap, text: str) -> None:
    assert rounded(value) == text


def test_the_last_bits_of_a_mean_do_not_decide() -> None:
    # The mean of three turns, 94.625 on paper, lies a little above or below it in binary.
    for turns in ((94.55, 94.6, 94.725), (94.725, 94.55, 94.6)):
        assert rounded(sum(turns) / 3) == "94.62"
    assert rounded(0.125 + 1e-6) == "0.13"


def test_other_numbers_of_digits() -> None:
    assert rounded(12.345, digits=1) == "12.3"
    assert rounded(12.5, digits=0) == "12"
    assert rounded(13.5, digits=0) == "14"


SMALL = Layout(
    label="tab:small",
    caption="Accuracy (%) of T2--T4 & more.",
    header=((("", 1), ("MATH_500†", 2)), (("Condition", 1), ("Avg@4", 1), ("Pass@4", 1))),
    rows=(
        Row((Cell("A model"),), heading=True),
        Row((Cell("Vanilla"), Cell("50.00"), Cell("--")), shaded="vanillarow"),
        Row(
            (Cell("STAIR", bold=True), Cell("61.25", bold=True, underline=True), Cell("70.00")),
            shaded="stairrow",
            rule="midrule",
        ),
        Row((Cell("Another"),), heading=True),
        Row((Cell("Native"), Cell("−1.00"), Cell("2.00", underline=True, shaded="stairrow"))),
    ),
    notes=("Not reported: a response is missing.", "† Problems are left out."),
    separation=3,
    stretch=1.12,
)


def test_markdown() -> None:
    assert markdown(SMALL) == (
        "**Accuracy (%) of T2–T4 & more.**\n"
        "\n"
        "| Condition | MATH_500† Avg@4 | MATH_500† Pass@4 |\n"
        "|---|---:|---:|\n"
        "| ***A model*** |  |  |\n"
        "| Vanilla | 50.00 | – |\n"
        "| **STAIR** | **<u>61.25</u>** | 70.00 |\n"
        "| ***Another*** |  |  |\n"
        "| Native | −1.00 | <u>2.00</u> |\n"
        "\n"
        "Not reported: a response is missing.\n"
        "\n"
        "† Problems are left out.\n"
    )
    assert markdown(read_markdown(markdown(SMALL))) == markdown(SMALL)


def test_markdown_prints_symbols_plainly_and_keeps_its_columns() -> None:
    table = Layout("tab:x", "𝑛 counts.", ((("a|b", 1), ("𝑛", 1)),), (Row((Cell("T2--T4|x"), Cell("Δ −0.50"))),))
    assert markdown(table) == "**n counts.**\n\n| a\\|b | n |\n|---|---:|\n| T2–T4\\|x | Δ −0.50 |\n"
    assert markdown(read_markdown(markdown(table))) == markdown(table)


def test_rows_of_unequal_width_are_noticed() -> None:
    with pytest.raises(AssertionError, match="differ in width"):
        Layout("tab:x", "", ((("a", 1), ("b", 1)),), (Row((Cell("1"),)),))
