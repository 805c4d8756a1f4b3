"""A paper-sized design on disk: its tables give the same design, and the LaTeX of the paper (appendix A.1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from stair.config.paths import RunPaths
from stair.config.resolve import resolve
from stair.paper.labels import Labels
from stair.paper.latex import latex
from stair.paper.tables import replay_design
from stair.records.schemas import REPLAY_HISTORIES, REPLAY_PROBLEMS
from stair.records.tables import write_table
from stair.stages.replay.design.crossed import Design, crossed_design
from stair.stages.replay.design.design_tables import history_rows, problem_rows, read_design
from tests.paper.printed import printed
from tests.replay.test_crossed_design import PAPER, ROOT, four_paths, schedule

CONFIG = resolve(ROOT, {"run": "paper", "replay": {"analysis": None}, "runtime": None, "controls": None})
MODEL = "qwen3-4b-instruct"

PRINTED = r"""
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


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Design, RunPaths]:
    """A design of the paper's sizes and the folder with its two tables; lengths of histories are their numbers."""
    sessions = schedule(500)
    design = crossed_design(sessions, four_paths(sessions), PAPER, "replay")
    paths = RunPaths(tmp_path_factory.mktemp("paper"))
    histories = [history for group in design.groups for history in group.history_coverage.histories]
    tokens = {history: (number, 2 * number, 3 * number) for number, history in enumerate(histories, start=1)}
    turns = dict.fromkeys(design.references(), (60, 50))
    write_table(paths.replay_histories(MODEL), REPLAY_HISTORIES, history_rows(design, tokens))
    write_table(paths.replay_problems(MODEL), REPLAY_PROBLEMS, problem_rows(design, turns))
    return design, paths


def test_the_tables_give_the_same_design(written: tuple[Design, RunPaths]) -> None:
    design, paths = written
    again = read_design(paths.replay_histories(MODEL), paths.replay_problems(MODEL), PAPER.batch_problems)
    assert again == design
    assert list(again.cells()) == list(design.cells())
    assert [group.reference_batches() for group in again.groups] == [g.reference_batches() for g in design.groups]


def test_the_latex_is_the_papers(written: tuple[Design, RunPaths]) -> None:
    table = replay_design.build(CONFIG, written[1], Labels.of(CONFIG))
    assert printed(latex(table.layout)) == printed(PRINTED)


def test_the_text_has_its_rows(written: tuple[Design, RunPaths]) -> None:
    values = {(value.metric, value.group): value.value for value in replay_design.in_text(CONFIG, written[1])}
    assert values["distinct nonempty replays", ""] == 61_440
    assert values["connected source blocks, problem coverage", "group 1"] == 17
    assert values["median history length, depth 2", "group 1"] == 2 * 64.5
    assert values["longest three-turn history", "group 2"] == 3 * 256


def test_a_table_with_other_columns_is_refused(written: tuple[Design, RunPaths], tmp_path: Path) -> None:
    _, paths = written
    with pytest.raises(ValueError, match=r"problems\.parquet"):
        read_design(paths.replay_problems(MODEL), paths.replay_problems(MODEL), 16)
    with pytest.raises(ValueError, match="absent"):
        read_design(tmp_path / "absent", paths.replay_problems(MODEL), 16)
