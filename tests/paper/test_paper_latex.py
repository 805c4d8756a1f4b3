"""One frame of rows with the paper's own counts, and its configuration, give the paper's LaTeX, line by line."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from stair.config.paths import RunPaths
from stair.method.controllers import Reflector
from stair.models.architecture import describe
from stair.models.published import CONFIGS, CONTROLLED_LAYERS
from stair.paper.make import write_table
from tests.paper.compiling import assert_clean, compiled, needs_latex
from tests.paper.paper_frame import Frame
from tests.paper.printed import PAPER_TABLES, Printed, printed

IN_ONE_WAY = "training-overlap problems", "problems overlapping the training set"
"""The paper writes the note on AMC23 in two ways. Every table here has the second."""


@pytest.fixture(scope="module")
def folder(paper_frame: Frame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All tables, of one frame of rows in each study and of the paper's configuration."""
    folder, config = tmp_path_factory.mktemp("tables"), paper_frame.config
    shutil.copytree(paper_frame.folder / "out", folder / "out")
    paths = RunPaths(folder)
    for model in config.models:
        shape = describe(CONFIGS[model])
        drawn = Reflector.draw(CONTROLLED_LAYERS, shape.query_heads, shape.head_dim, seed=0)
        drawn.save(paths.weights(model, "stair"), architecture=shape)
    for name in ("controller_configuration", "evaluation_decoding"):
        write_table(config, paths, name)
        shutil.copy(paths.table(name, ".tex"), folder / "out")
    return folder / "out"


@pytest.fixture(scope="module")
def ours(folder: Path) -> dict[str, Printed]:
    """Our tables by their labels."""
    files = [path for path in sorted(folder.glob("*.tex")) if path.stem not in OURS_ALONE]
    return printed("\n".join(path.read_text(encoding="utf-8") for path in files))


OURS_ALONE = {"intervals", "comparisons", "shared_t1_intervals", "shared_t1_comparisons"}
"""Tables that the paper does not have."""

PAPER = printed(PAPER_TABLES.read_text(encoding="utf-8"))


def test_every_table_is_there(ours: dict[str, Printed]) -> None:
    assert sorted(ours) == sorted(PAPER)
    assert len(PAPER) == 15
    assert sum(len(table.lines) for table in PAPER.values()) > 200


@pytest.mark.parametrize("label", sorted(PAPER))
def test_a_table_is_the_papers(ours: dict[str, Printed], label: str) -> None:
    """Caption, lengths, columns, every line with its emphasis, and the notes. No cell is left out."""
    paper = PAPER[label]
    notes = tuple(note.replace(*IN_ONE_WAY) for note in paper.notes)
    assert ours[label] == replace(paper, notes=notes)


@needs_latex
def test_every_file_compiles(folder: Path, tmp_path: Path) -> None:
    """With the preamble alone, each on a page of its own; nothing is wider than the page of the paper's style."""
    files = sorted(folder.glob("*.tex"))
    assert len(files) == len(PAPER) + len(OURS_ALONE)
    tables = [path.read_text(encoding="utf-8") for path in files]
    assert_clean(compiled("\n\\clearpage\n".join(tables), tmp_path))
