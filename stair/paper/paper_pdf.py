"""The paper's tables and figures of a run in one PDF, set by pdfLaTeX (`stair paper`)."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.paper.comparison.stage import structure_note
from stair.paper.exhibits import Exhibit, exhibits
from stair.paper.latex import PREAMBLE, escaped, note_line
from stair.paper.paper_labels import PRINTED_AT
from stair.records.files import read_mapping, replacing

_LATEX = "pdflatex"

# A table that is wider than the page is scaled to it. Floats fill their pages. The last lines keep dates, ids and versions out
# of the PDF's own data.
_HEAD = (
    r"\documentclass{article}",
    r"\usepackage[textwidth=5.5in,textheight=9in]{geometry}",
    r"\usepackage{graphicx}",
    *PREAMBLE,
    r"\usepackage[hidelinks]{hyperref}",
    r"\setcounter{topnumber}{9}\setcounter{bottomnumber}{9}\setcounter{totalnumber}{18}\extrafloats{100}",
    r"\renewcommand{\topfraction}{.97}\renewcommand{\bottomfraction}{.97}\renewcommand{\textfraction}{.03}",
    r"\renewcommand{\floatpagefraction}{.75}",
    r"\makeatletter\setlength{\@fptop}{0pt}\setlength{\@fpsep}{18pt}\makeatother",
    r"\setlength{\parindent}{0pt}\setlength{\parskip}{3pt}",
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
    """The LaTeX document; figures are files `figure-NAME.pdf` beside it. Tables and figures have the paper's numbers."""
    title = escaped(f"Tables and figures of the run {config.run}")
    lines = [*_HEAD, rf"\hypersetup{{pdftitle={{{title}}}}}", r"\begin{document}", rf"\section*{{{title}}}"]
    lines += [f"{escaped(each)}\n" for each in filter(None, (config.note, structure_note(config), *_made(paths)))]
    lines += [_entry(each) for each in parts]
    further = Counter(place.split()[0].lower() for place in PRINTED_AT.values())  # numbers behind the paper's
    for each in parts:
        number = each.number
        if number is None:
            number = further[each.kind] = further[each.kind] + 1
        lines.append(rf"\setcounter{{{each.kind}}}{{{number - 1}}}")
        lines += _table(each, config, paths) if each.kind == "table" else _figure(each)
    return "\n".join([*lines, r"\end{document}", ""])


def _made(paths: RunPaths) -> list[str]:
    """When the run's outputs were made, and the commit at its end; nothing without provenance.json."""
    if not paths.provenance.is_file():
        return []
    facts = read_mapping(paths.provenance)
    return [
        f"Last output: {facts['sealed']['last']} (UTC).",
        *([f"Commit: {facts['commit']}."] if facts.get("commit") else []),
    ]


def _entry(each: Exhibit) -> str:
    """A line of the contents."""
    return rf"\hyperref[{each.artifact}]{{{escaped(each.heading)}}}\dotfill\pageref{{{each.artifact}}}\par"


def _table(each: Exhibit, config: Config, paths: RunPaths) -> list[str]:
    """A table's file, without the run's note, as a float."""
    text = _file(each, paths).read_text(encoding="utf-8")
    if config.note:
        text = text.replace(f"{note_line(config.note)}\n", "")
    return [text.replace(r"\begin{table}[H]", r"\begin{table}[htbp]")]


def _figure(each: Exhibit) -> list[str]:
    size = r"width=\linewidth,height=0.85\textheight,keepaspectratio"
    return [
        r"\begin{figure}[htbp]",
        r"\centering",
        rf"\includegraphics[{size}]{{{each.anchor}.pdf}}",
        rf"\caption{{{escaped(each.caption)}}}\label{{{each.artifact}}}",
        r"\end{figure}",
        "",
    ]


def _file(each: Exhibit, paths: RunPaths) -> Path:
    return each.file(paths, ".tex" if each.kind == "table" else ".pdf")


def _set(place: Path) -> None:
    """Runs pdfLaTeX on paper.tex of a folder, twice: the contents have the pages of the first pass."""
    command = [_LATEX, "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "paper.tex"]
    environment = os.environ | {"SOURCE_DATE_EPOCH": "0", "FORCE_SOURCE_DATE": "1"}
    for _ in range(2):
        done = subprocess.run(command, cwd=place, env=environment, stdin=subprocess.DEVNULL, capture_output=True)
        if done.returncode == 0:
            continue
        log = (place / "paper.log").read_text(encoding="utf-8", errors="replace").splitlines()
        fault = " ".join(line for line in log if line.startswith(("!", "l.")))
        raise ValueError(f"{_LATEX} cannot set the tables and figures: {fault or 'see its log'}")
