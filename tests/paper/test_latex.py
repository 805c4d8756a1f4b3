"""A small table as LaTeX, what of its text is escaped, and that all of it compiles."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stair.paper.latex import PREAMBLE, escaped, latex
from stair.paper.layout import Cell, Layout, Row, markdown
from tests.paper.compiling import assert_clean, compiled, needs_latex
from tests.paper.test_layout import SMALL

SPECIAL = r"[a]* 100% & c_1 # $5 {x} ~ ^ \frac < > | †, b† Δ – — ≈ × ± · → ≤ ≥ … 𝑛 −1,234.5 − T2--T4"
SPECIAL += " “b” ‘c’"
"""Every character that means something to LaTeX, and every symbol that a font of its may lack."""


def test_latex() -> None:
    lines = latex(SMALL).splitlines()
    assert lines[: len(PREAMBLE)] == [f"% Preamble: {line}" for line in PREAMBLE]
    assert lines[len(PREAMBLE) :] == [
        r"\begin{table}[H]",
        r"\centering",
        r"\setlength{\tabcolsep}{3pt}",
        r"\renewcommand{\arraystretch}{1.12}",
        r"\caption{Accuracy (\%) of T2--T4 \& more.}",
        r"\label{tab:small}",
        r"\begin{tabular}{@{}lrr@{}}",
        r"\toprule",
        r"& \multicolumn{2}{c}{MATH\_500$^{\dagger}$}\\",
        r"\cmidrule(lr){2-3}",
        r"Condition & Avg@4 & Pass@4\\",
        r"\midrule",
        r"\multicolumn{3}{@{}l}{\textbf{\textit{A model}}}\\",
        r"\rowcolor{vanillarow}Vanilla & 50.00 & --\\",
        r"\rowcolor{stairrow}\textbf{STAIR} & \underline{\textbf{61.25}} & 70.00\\",
        r"\midrule",
        r"\multicolumn{3}{@{}l}{\textbf{\textit{Another}}}\\",
        r"Native & $-1.00$ & \cellcolor{stairrow}\underline{2.00}\\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\par\smallskip\noindent Not reported: a response is missing.",
        r"\par\smallskip\noindent$\dagger$ Problems are left out.",
        r"\end{table}",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("100% & c_1", r"100\% \& c\_1"),
        ("a#b{c}$5", r"a\#b\{c\}\$5"),
        (r"~^\frac", r"\textasciitilde{}\textasciicircum{}\textbackslash{}frac"),
        ("AMC23† and † it", r"AMC23$^{\dagger}$ and $\dagger$ it"),
        ("†", r"$\dagger$"),
        ("Δ (pp) × ≈ –", r"$\Delta$ (pp) $\times$ $\approx$ --"),
        ("−0.50", "$-0.50$"),
        ("−1,234.50 to −3.", "$-1,234.50$ to $-3$."),
        ("Qwen3-4B", "Qwen3-4B"),
        ("K--V", "K--V"),
        ("𝑛 of 𝑝", "$n$ of $p$"),
        ("[a]*", "{[}a]{*}"),
        ("Näive 漢", "Näive 漢"),
        ("“b” ‘c’", r"\textquotedblleft{}b\textquotedblright{} \textquoteleft{}c\textquoteright{}"),
        ("one\n\n two\tthree\u2029four ", "one two three four"),
    ],
)
def test_text_is_escaped(text: str, expected: str) -> None:
    assert escaped(text) == expected


def test_bold_reaches_negative_numbers() -> None:
    row = Row((Cell("STAIR"), Cell("−0.50", bold=True), Cell("+0.50", bold=True)))
    text = latex(Layout("tab:x", "", ((("a", 1), ("b", 1), ("c", 1)),), (row,)))
    assert r"STAIR & \textbf{\boldmath$-0.50$} & \textbf{+0.50}\\" in text


def test_columns_as_a_table_asks_for_them() -> None:
    header = ((("a", 1), ("b", 1), ("c", 1)),)
    open_sides = Layout("tab:x", "", header, (Row((Cell("h"),), heading=True),), columns="llc", trimmed=False)
    assert r"\begin{tabular}{llc}" in latex(open_sides)
    assert r"\multicolumn{3}{l}{\textbf{\textit{h}}}\\" in latex(open_sides)
    assert "|---|---|---:|" in markdown(open_sides)
    with pytest.raises(AssertionError, match="aligns 2 of 3 columns"):
        Layout("tab:x", "", header, (), columns="ll")


@needs_latex
def test_every_special_character_compiles_wherever_text_can_be(tmp_path: Path) -> None:
    cells = (Cell(SPECIAL, bold=True, underline=True), Cell("−0.50", bold=True, shaded="stairrow"))
    table = Layout(
        "tab:special",
        SPECIAL,
        (((SPECIAL, 2),), ((SPECIAL, 1), ("b", 1))),
        (Row((Cell(SPECIAL),), heading=True), Row(cells, rule="midrule"), Row(cells, rule="addlinespace"), Row(cells)),
        notes=(SPECIAL, f"† {SPECIAL}"),
    )
    assert "Missing character" not in compiled(latex(table), tmp_path)


@needs_latex
def test_text_with_blank_lines_compiles(tmp_path: Path) -> None:
    text = "One.\n\n \nTwo.\n"
    table = Layout(
        "tab:x", text, (((text, 2),), ((text, 1), ("b", 1))), (Row((Cell(text, bold=True), Cell("1"))),), (text,)
    )
    assert "One. Two." in latex(table) and "\n\n" not in latex(table)
    assert_clean(compiled(latex(table), tmp_path))


@needs_latex
def test_the_small_table_compiles(tmp_path: Path) -> None:
    assert_clean(compiled(latex(SMALL), tmp_path))
    assert_clean(compiled(latex(replace(SMALL, notes=())), tmp_path))


def test_a_long_table_is_several_whose_blocks_repeat_their_heading() -> None:
    heading = Row((Cell("A block"),), heading=True)
    lines = tuple(Row((Cell(f"row {number}"), Cell(str(number)))) for number in range(110))
    table = Layout(
        "tab:long", "Many.", ((("Name", 1), ("Value", 1)),), (heading, *lines, heading, *lines[:3]), ("A note.",)
    )
    text = latex(table)
    parts = text.split(r"\begin{table}[H]")[1:]
    rows = [sum(line.endswith(r"\\") for line in part.splitlines()) - 1 for part in parts]
    assert rows == [40, 40, 37]
    assert [part.count("A block") for part in parts] == [1, 1, 2]
    assert [r"\label" in part for part in parts] == [True, False, False]
    assert ["A note." in part for part in parts] == [False, False, True]
    assert ["Many. (Continued.)" in part for part in parts] == [False, True, True]
    assert [text.count(f"row {number} &") for number in range(3, 110)] == [1] * 107


@needs_latex
def test_every_page_of_a_long_table_fits(tmp_path: Path) -> None:
    lines = tuple(Row((Cell(f"row {number}"), Cell(str(number)))) for number in range(110))
    note = "A note of some words under the last part of the table. " * 6
    table = Layout("tab:long", "Many words of a caption. " * 8, ((("Name", 1), ("Value", 1)),), lines, (note,))
    assert_clean(compiled(latex(table), tmp_path))
