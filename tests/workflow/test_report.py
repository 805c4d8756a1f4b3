"""The report page and the PDF of a finished run: whole, self-contained, the same bytes for the same files."""

from __future__ import annotations

import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

from stair.config.paths import RunPaths
from stair.config.resolve import load_run
from stair.paper.exhibits import GAINS_FROM, exhibits
from stair.paper.html_table import note_line
from tests.paper.compiling import needs_latex
from tests.workflow.conftest import run_in

pytestmark = pytest.mark.timeout(300)


class Page(HTMLParser):
    """The tags of a page that a reader's browser would follow or load."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.tags: set[str] = set()
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in ("meta", "img", "link", "br"):
            self.open.append(tag)
        for name, value in attributes:
            places = {"id": self.ids, "href": self.links, "src": self.loaded}
            if name in places:
                places[name].append(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"{tag} ends where another element is open"


def test_the_page_has_everything_and_loads_nothing(finished_run: Path) -> None:
    folder = finished_run / "results/smoke"
    config, paths = load_run(folder), RunPaths(folder)
    text = (folder / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    assert page.open == []
    assert not page.tags & {"script", "link", "iframe", "object"}
    assert all(source.startswith("data:image/png;base64,") for source in page.loaded)
    assert not re.search(r"url\(|@import", text)
    parts = exhibits(config)
    assert len(page.loaded) == sum(each.kind == "figure" for each in parts) > 5
    anchors = [each.anchor for each in parts]
    anchors.insert(0, anchors.pop(anchors.index(f"table-{GAINS_FROM}")))  # the main result is above all others
    assert [name for name in page.ids if name.startswith(("table-", "figure-"))] == anchors
    assert len(page.ids) == len(set(page.ids))
    for link in page.links:
        assert link[1:] in page.ids if link.startswith("#") else (folder / link).is_file(), link
    for each in parts:
        if each.kind == "table":
            table = paths.table(each.name, ".html").read_text(encoding="utf-8")
            assert table.replace(note_line(config.note or "") + "\n", "") in text
    assert text.index('id="outcome"') < text.index('id="main"') < text.index('id="scope"') < text.index('id="paper"')
    assert " ".join(text.split()).count(" ".join((config.note or "").split())[:40]) == 1
    for model in config.models.values():
        assert model.label in text


def test_the_same_files_give_the_same_page(copied_run: Path) -> None:
    page = copied_run / "results/smoke/report.html"
    before = page.read_bytes()
    page.unlink()
    assert "results/smoke/report.html" in run_in(copied_run, "stair", "report", "--run", "results/smoke").stdout
    assert page.read_bytes() == before


@needs_latex
def test_the_paper_is_one_pdf_and_the_same_bytes(copied_run: Path) -> None:
    folder = copied_run / "results/smoke"
    config = load_run(folder)
    done = run_in(copied_run, "stair", "paper", "--run", "results/smoke")
    count = sum(each.in_paper for each in exhibits(config))
    assert done.stdout == f"results/smoke/paper.pdf: {count} tables and figures\n"
    before = (folder / "paper.pdf").read_bytes()
    assert before.startswith(b"%PDF-") and b"/CreationDate" not in before
    shutil.move(folder, copied_run / "moved")
    run_in(copied_run, "stair", "paper", "--run", "moved")
    assert (copied_run / "moved/paper.pdf").read_bytes() == before
    (copied_run / "moved/figures/method.pdf").unlink()
    done = run_in(copied_run, "stair", "paper", "--run", "moved", check=False)
    assert done.returncode == 2
    assert "moved/figures/method.pdf does not exist; make the tables and figures first" in done.stderr
    assert len(done.stderr.splitlines()) == 1
