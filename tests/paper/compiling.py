"""A LaTeX table in a document of its own, through a real pdflatex."""

from __future__ import annotations

import subprocess
from pathlib import Path

from stair.paper.latex import PREAMBLE
from tests.programs import needs

needs_latex = needs("pdflatex", "latex")


def compiled(table: str, folder: Path) -> str:
    """The log of a document that holds only this table; its page is `folder`/page.pdf."""
    lines = [
        r"\documentclass{article}",
        r"\usepackage[textwidth=5.5in]{geometry}",
        *PREAMBLE,
        r"\begin{document}",
        table,
        r"\end{document}",
    ]
    (folder / "page.tex").write_text("\n".join(lines), encoding="utf-8")
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"], cwd=folder, capture_output=True
    )
    log = (folder / "page.log").read_text(encoding="utf-8", errors="replace")
    assert done.returncode == 0, "\n".join(line for line in log.splitlines() if line.startswith(("!", "l.")))
    return log


def assert_clean(log: str) -> None:
    """No character that the font lacks, nothing wider or longer than the page."""
    faults = [line for line in log.splitlines() if line.startswith(("Missing character", "Overfull"))]
    assert not faults, faults
