"""The paper's tables of one model on one benchmark: each of several pairs has its own block."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from stair.paper.exhibits import LORA as LORA_CONDITIONS
from stair.paper.labels import Labels
from stair.paper.latex import latex
from stair.paper.layout import Row, markdown
from stair.paper.tables.table import Table
from tests.paper.compiling import assert_clean, compiled, needs_latex
from tests.paper.sources import table_of
from tests.paper.test_tables import rows

LABELS = Labels(models={"m": "First", "n": "Second"}, benchmarks={"b": "Bench", "c": "Other"}, marked=frozenset({"c"}))
PAIRS = (("m", "b"), ("m", "c"), ("n", "b"))
CORRECT = {
    # Of sixteen responses at each turn; the second pair's best is worse than the first's worst.
    ("m", "b"): {"native": 8, "stair": 10, "lora": 9, "lora_stair": 12},
    ("m", "c"): {"native": 1, "stair": 4, "lora": 2, "lora_stair": 3},
    ("n", "b"): {"native": 5, "stair": 5, "lora": 5, "lora_stair": 5},
}


def of_pair(model: str, benchmark: str, names: dict[str, str]) -> pd.DataFrame:
    """Rows of a pair's conditions under the names that a table knows them by."""
    frames = []
    for name, condition in names.items():
        count = CORRECT[model, benchmark][name]
        frame = rows(benchmark, {("native", 0): count})
        frames.append(frame[frame["condition"] == "native"].assign(model=model, condition=condition))
    return pd.concat(frames, ignore_index=True)


LORA = {name: name for name in LORA_CONDITIONS}
STUDY = {"native": "native", "lora": "direct_read", "lora_stair": "stair", "stair": "stair_prefix-2048"}


def made(name: str, pairs: tuple[tuple[str, str], ...]) -> Table:
    frame = pd.concat([of_pair(*pair, LORA if "lora" in name else STUDY) for pair in pairs], ignore_index=True)
    table = table_of(name, frame.assign(bank_tokens=3_000), LABELS)
    assert table is not None
    return table


def blocks(table: Table) -> dict[str, list[Row]]:
    """The rows below each heading."""
    found: dict[str, list[Row]] = {}
    for row in table.layout.rows:
        if row.heading:
            block = found.setdefault(row.cells[0].text, [])
        else:
            block.append(row)
    return found


TABLES = ("lora_comparison", "lora_turns", "shared_t1", "bank_prefix_accuracy")


@pytest.mark.parametrize("name", TABLES)
def test_every_pair_has_its_block_with_the_rows_that_it_has_alone(name: str) -> None:
    table = made(name, PAIRS)
    found = blocks(table)
    assert list(found) == ["First on Bench", "First on Other†", "Second on Bench"]
    for pair, block in zip(PAIRS, found.values(), strict=True):
        alone = made(name, (pair,))
        assert not any(row.heading for row in alone.layout.rows)
        assert [(row.cells, row.shaded) for row in block] == [(row.cells, row.shaded) for row in alone.layout.rows]
        assert set(alone.values) <= set(table.values)
    assert len(table.values) == sum(len(made(name, (pair,)).values) for pair in PAIRS)
    assert [block[-1].rule is not None for block in found.values()] == [True, True, False]


@pytest.mark.parametrize(
    ("name", "average", "bold"),
    [
        ("lora_comparison", 2, (["LoRA + STAIR"], ["STAIR"], ["Native", "STAIR", "LoRA", "LoRA + STAIR"])),
        ("lora_turns", 1, (["LoRA + STAIR"], ["STAIR"], ["Native", "STAIR", "LoRA", "LoRA + STAIR"])),
        ("shared_t1", 1, (["STAIR"], ["STAIR"], ["Native", "Direct reflected-read", "STAIR"])),
        ("bank_prefix_accuracy", 2, (["STAIR Full"], ["STAIR 2K"], ["Native", "STAIR 2K", "STAIR Full"])),
    ],
)
def test_bold_is_the_best_of_its_block(name: str, average: int, bold: tuple[list[str], ...]) -> None:
    """By the column of Avg@4; the third pair's rows are all equal."""
    found = blocks(made(name, PAIRS)).values()
    assert tuple([row.cells[0].text for row in block if row.cells[average].bold] for block in found) == bold


@pytest.mark.parametrize("name", TABLES)
def test_the_caption_names_the_pair_only_where_it_is_one(name: str) -> None:
    alone, several = made(name, PAIRS[1:2]).layout, made(name, PAIRS).layout
    assert "Other†" in alone.caption and "Other" not in several.caption and "Bench" not in several.caption
    note = "† Other excludes problems overlapping the training set, leaving 4 problems."
    assert note in alone.notes and note in several.notes
    assert "| ***First on Other†*** |" in markdown(several)
    assert r"{\textbf{\textit{First on Other$^{\dagger}$}}}\\" in latex(several)


@needs_latex
def test_several_pairs_compile(tmp_path: Path) -> None:
    assert_clean(compiled("\n\\clearpage\n".join(latex(made(name, PAIRS).layout) for name in TABLES), tmp_path))


@pytest.mark.parametrize(
    ("families", "sentence"),
    [
        (("kv_permutation",), "K--V pairing averages three test-time seeds; other"),
        (
            ("random_reflector", "kv_permutation"),
            "Random-reflector and K--V pairing average three test-time seeds; other",
        ),
    ],
)
def test_the_caption_names_the_seeded_controls_that_the_table_has(families: tuple[str, ...], sentence: str) -> None:
    names = {"native": "native", "stair": "stair"}
    frames = [of_pair("m", "b", names)]
    frames += [of_pair("m", "b", {"lora": f"{family}-{seed}"}) for family in families for seed in (1, 2, 3)]
    table = table_of("shared_t1", pd.concat(frames, ignore_index=True), LABELS)
    assert table is not None
    assert f"per problem. {sentence} conditions" in table.layout.caption
