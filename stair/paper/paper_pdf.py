"""The paper's tables and figures of a run in one PDF, set by pdfLaTeX (`stair paper`)."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.paper.exhibits import Exhibit, exhibits
from stair.paper.latex import PREAMBLE, escaped
from stair.records.files import replacing

_LATEX = "pdflatex"

# A table that is wider than the page is scaled to it. The last lines keep dates, ids and versions out of the PDF.
_HEAD = (
    r"\documentclass{article}",
    r"\usepackage[textwidth=5.5in,textheight=9in]{geometry}",
    r"\usepackage{graphicx}",
    *PREAMBLE,
    r"\setlength{\belowcaptionskip}{6pt}",
    r"\newsavebox{\stairtable}",
    r"\let\stairtabular\tabular\let\endstairtabular\endtabular",
    r"\renewenvironment{tabular}[1]{\begin{lrbox}{\stairtable}\stairtabular{#1}}{\endstairtabular\end{lrbox}%",
    r"\ifdim\wd\stairtable>\linewidth\resizebox{\linewidth}{!}{\usebox{\stairtable}}\else\usebox{\stairtable}\fi}",
    r"\pdfinfoomitdate=1 \pdfsuppressptexinfo=-1 \pdftrailerid{}",
)


def write_paper(config: Config, paths: RunPaths) -> int:
    """Writes paper.pdf from tables/*.tex and figures/*.pdf; returns the number of tables and figures.

    The same files give the same bytes.

    Raises:
        ValueError: pdfLaTeX is not installed or fails, or a table or figure does not exist.
    """
    if shutil.which(_LATEX) is None:
        raise ValueError(f"{_LATEX} is not installed; on Debian and Ubuntu, as root: envs/debian.sh latex")
    parts = [each for each in exhibits(config) if each.in_paper]
    absent = [file for file in (_file(each, paths) for each in parts) if not file.is_file()]
    if absent:
        raise ValueError(f"{absent[0]} does not exist; make the tables and figures first: {paths.start_command()}")
    with tempfile.TemporaryDirectory(prefix="stair-paper-") as folder:
        place = Path(folder)
        for each in parts:
            if each.kind == "figure":
                shutil.copyfile(_file(each, paths), place / f"{each.anchor}.pdf")
        (place / "paper.tex").write_text(document(config, paths, parts), encoding="utf-8")
        _set(place)
        with replacing(paths.paper) as partial:
            shutil.copyfile(place / "paper.pdf", partial)
    return len(parts)


def document(config: Config, paths: RunPaths, parts: list[Exhibit]) -> str:
    """The LaTeX document; figures are files `figure-NAME.pdf` beside it."""
    lines = [*_HEAD, r"\begin{document}", rf"\section*{{Tables and figures of the run {escaped(config.run)}}}"]
    if config.note:
        lines += [escaped(config.note), ""]
    for each in parts:
        if each.kind == "table":
            lines.append(_file(each, paths).read_text(encoding="utf-8"))
        else:
            lines += _figure(each)
    return "\n".join([*lines, r"\end{document}", ""])


def _figure(each: Exhibit) -> list[str]:
    size = r"width=\linewidth,height=0.85\textheight,keepaspectratio"
    return [
        r"\begin{figure}[H]",
        r"\centering",
        rf"\includegraphics[{size}]{{{each.anchor}.pdf}}",
        rf"\caption{{{escaped(each.caption)}}}",
        r"\end{figure}",
        "",
    ]


def _file(each: Exhibit, paths: RunPaths) -> Path:
    return each.file(paths, ".tex" if each.kind == "table" else ".pdf")


def _set(place: Path) -> None:
    """Runs pdfLaTeX on paper.tex of a folder. One pass is enough, because nothing refers to a page or number."""
    command = [_LATEX, "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "paper.tex"]
    environment = os.environ | {"SOURCE_DATE_EPOCH": "0", "FORCE_SOURCE_DATE": "1"}
    done = subprocess.run(command, cwd=place, env=environment, stdin=subprocess.DEVNULL, capture_output=True)
    if done.returncode:
        log = (place / "paper.log").read_text(encoding="utf-8", errors="replace").splitlines()
        fault = " ".join(line for line in log if line.startswith(("!", "l.")))
        raise ValueError(f"{_LATEX} cannot set the tables and figures: {fault or 'see its log'}")
