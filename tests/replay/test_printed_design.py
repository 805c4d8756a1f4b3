"""A design of the paper's sizes: its tables on disk, the numbers that the paper prints, and its bytes (appendix A.1)."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.resolve import resolve
from stair.models.architecture import describe
from stair.models.published import CONFIGS
from stair.paper.latex import latex
from stair.paper.make import build_table
from stair.paper.tables import replay_design
from stair.records.rows import ReplayHistory
from stair.records.schemas import REPLAY_HISTORIES, REPLAY_PROBLEMS
from stair.records.tables import write_table
from stair.stages.replay.design.crossed import Design, crossed_design
from stair.stages.replay.design.design_tables import history_rows, problem_rows, read_design
from stair.stages.replay.design.printed_numbers import length_numbers, table_numbers, text_numbers
from stair.statistics.values import Value
from tests.paper.printed import printed
from tests.replay.test_crossed_design import PAPER, four_paths, schedule

ROOT = Path(__file__).parents[2]
MODEL = "qwen3-4b-instruct"

TABLE = r"""
\begin{table}[htbp]
\centering
\caption{Balanced replay designs. Histories are sampled paths; sessions count distinct problem orders. Source problems count distinct problems in the first three turns.}
\label{tab:replay-design}
\begin{tabular}{llrrrr}
\toprule
Design & Group & Current problems & Histories & Sessions & Source problems\\
\midrule
History coverage & 1 & 64 & 128 & 33 & 81\\
History coverage & 2 & 64 & 128 & 32 & 83\\
Problem coverage & 1 & 128 & 32 & 25 & 67\\
Problem coverage & 2 & 128 & 32 & 23 & 63\\
\bottomrule
\end{tabular}
\end{table}
"""  # noqa: E501
"""The paper's table."""


class Written(NamedTuple):
    design: Design
    config: Config
    paths: RunPaths


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """A design of the paper's sizes and the folder with its two tables; lengths of histories are their numbers."""
    sessions = schedule(500)
    design = crossed_design(sessions, four_paths(sessions), PAPER)
    config = resolve(ROOT, {"run": "paper", "replay": {"analysis": None}, "runtime": None, "controls": None})
    paths = RunPaths(tmp_path_factory.mktemp("paper"))
    histories = [history for group in design.groups for history in group.history_coverage.histories]
    tokens = {history: (number, 2 * number, 3 * number) for number, history in enumerate(histories, start=1)}
    turns = dict.fromkeys(design.references(), (60, 50))
    write_table(paths.replay_histories(MODEL), REPLAY_HISTORIES, history_rows(design, tokens))
    write_table(paths.replay_problems(MODEL), REPLAY_PROBLEMS, problem_rows(design, turns))
    return Written(design, config, paths)


def test_the_tables_give_the_same_design(written: Written) -> None:
    design, _, paths = written
    assert read_design(paths.replay_histories(MODEL), paths.replay_problems(MODEL)) == design
    with pytest.raises(ValueError, match=r"problems\.parquet"):
        read_design(paths.replay_problems(MODEL), paths.replay_problems(MODEL))


def test_the_latex_is_the_papers(written: Written) -> None:
    table = build_table(written.config, written.paths, "replay_design")
    drawn = TABLE
    for group in written.design.groups:
        for coverage, theirs in ((group.history_coverage, (81, 83)), (group.problem_coverage, (67, 63))):
            old = f"& {len(coverage.sessions)} & {theirs[group.number - 1]}"
            assert old in drawn
            drawn = drawn.replace(old, f"& {len(coverage.sessions)} & {len(coverage.sources)}")
    assert printed(latex(table.layout)) == printed(drawn)


Name = tuple[str, str, str]
"""Coverage, group and metric of a number."""


def papers(artifact: str, *, tokens: bool = False) -> dict[Name, str]:
    """The paper's numbers of an artifact."""
    with (ROOT / "stair" / "paper" / "paper_values.csv").open(encoding="utf-8", newline="") as file:
        return {
            (row["condition"], row["group"], row["metric"]): row["value"]
            for row in csv.DictReader(file)
            if row["artifact"] == artifact and (row["unit"] == "tokens") == tokens
        }


def ours(values: Iterable[Value]) -> dict[Name, str]:
    return {(value.condition, value.group, value.metric): str(value.value) for value in values}


def test_table_and_text_have_the_papers_numbers_in_the_papers_order(written: Written) -> None:
    table, theirs = ours(table_numbers(written.design, MODEL, "math500")), papers("tab:replay-design")
    assert list(table) == list(theirs)
    # The draw decides the source problems of the history coverage.
    assert {name for name in table if table[name] != theirs[name]} <= {
        name for name in theirs if name[2] == "source problems"
    }
    found, paper = ours(text_numbers(written.design, MODEL, "math500")), papers("app:replay-construction")
    assert {name: found.get(name) for name in paper} == paper
    # The paper gives the blocks of the problem coverage only.
    assert {metric for _, _, metric in found.keys() - paper.keys()} == {"connected source blocks, history coverage"}


def test_the_text_has_rows_of_both_kinds(written: Written) -> None:
    values = {
        (value.metric, value.group): value.value for value in replay_design.in_text(written.config, written.paths)
    }
    assert values["distinct nonempty replays", ""] == 61_440
    assert values["connected source blocks, problem coverage", "group 1"] == 17
    assert values["median history length, depth 2", "group 1"] == 2 * 64.5
    assert values["longest three-turn history", "group 2"] == 3 * 256


def test_lengths_of_histories_by_depth_group_and_coverage() -> None:
    rows = [
        ReplayHistory(group, "s-0", "s", 0, [], tokens, 1, block)
        for group, block, tokens in (
            (1, 1, [10, 25, 70]),
            (1, None, [12, 20, 60]),
            (1, 1, [11, 40, 50]),
            (1, None, [17, 30, 90]),
            (2, 1, [5, 9, 13]),
            (2, None, [6, 8, 21]),
        )
    ]
    lengths = list(length_numbers(rows, MODEL, "math500"))
    found = {(value.metric, value.group): value.value for value in lengths}

    def values(group: int, *metrics: str) -> list[object]:
        return [found[metric, f"group {group}"] for metric in metrics]

    medians = [f"median history length, depth {depth}" for depth in (1, 2, 3)]
    assert values(1, *medians) == [11.5, 27.5, 65]
    assert values(2, *medians) == [5.5, 8.5, 17]
    assert values(1, *(f"{median}, problem coverage" for median in medians)) == [10.5, 32.5, 60]
    assert values(1, *(f"shortest {turns}-turn history" for turns in ("one", "two", "three"))) == [10, 20, 50]
    assert values(1, *(f"longest {turns}-turn history" for turns in ("one", "two", "three"))) == [17, 40, 90]
    assert found["longest three-turn history, problem coverage", "group 1"] == 70
    assert len(found) == 2 * 2 * 3 * 3  # coverages, groups, depths, statistics
    # The paper's names are among them.
    names = papers("app:replay-construction", tokens=True)
    assert len(names) == 10 and names.keys() <= ours(lengths).keys()


def test_the_papers_replay_takes_24_5_gb_in_258_files(written: Written) -> None:
    architecture = describe(CONFIGS[MODEL])
    layers, hidden, categories = 36, 2560, 4
    cells, references, full_depth_problem_coverage = 49_152 + 12_288, 256, 2 * 128 * 32
    everywhere = layers * hidden + layers * categories
    with_reads = len(PAPER.layers) * (categories * hidden + hidden)
    numbers = (cells + references) * everywhere + references * hidden
    numbers += (full_depth_problem_coverage + references) * with_reads
    attending = len(architecture.full_attention_layers)
    nbytes = PAPER.states_bytes(architecture.layers, attending, architecture.hidden_size)
    assert nbytes == 4 * numbers == 24_511_922_176
    assert (PAPER.replays, PAPER.references, PAPER.batch_problems) == (cells, references, 16)
    work = list(written.design.work())
    assert len(work) == 258
    assert sum(len(each.problems) for each in work if each.history is not None) * 3 == cells
