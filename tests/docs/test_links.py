"""Links and paths of the project's pages lead to files and headings that exist; the page of experiments keeps its form."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.extend_page import steps

ROOT = Path(__file__).parents[2]
PATTERNS = ("*.md", "backbones/*.md", "benchmarks/*.md", "docs/**/*.md", "grader/*.md", "results/*.md")
PAGES = sorted(page for pattern in PATTERNS for page in ROOT.glob(pattern))
ADDED = {step.file for step in steps() if step.after is None}
"""The files that a reader of docs/extend.md adds."""


def prose(page: Path) -> str:
    """A page without its code blocks."""
    return re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to a page's headings: lower case, words joined by hyphens, no punctuation."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_link_leads_to_a_file_and_a_heading() -> None:
    checked, broken = 0, []
    for page in PAGES:
        for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
            if re.match(r"https?:", link):
                continue
            checked += 1
            file, _, anchor = link.partition("#")
            target = page.parent / file if file else page
            if not target.exists() or (anchor and anchor not in anchors(target)):
                broken.append(f"{page.relative_to(ROOT)}: {link}")
    assert checked > 50
    assert broken == []


def test_every_path_that_a_page_names_exists() -> None:
    checked, absent = 0, []
    for page in PAGES:
        for name in re.findall(
            r"`((?:benchmarks|docs|envs|grader|profiles|stair|tests|workflow)/[\w./-]+)`", prose(page)
        ):
            checked += 1
            if not (ROOT / name).exists() and not (page.parent / name).exists() and name not in ADDED:
                absent.append(f"{page.relative_to(ROOT)}: {name}")
    assert checked > 50
    assert absent == []


def test_every_function_of_the_walkthrough_exists() -> None:
    text = " ".join((ROOT / "docs" / "walkthrough.md").read_text(encoding="utf-8").split())
    named = re.findall(r"`(stair/[\w/]+\.py)`, (function|method|class) `(\w+)`", text)
    assert len(named) > 10
    for file, kind, name in named:
        definition = f"{'class' if kind == 'class' else 'def'} {name}"
        assert definition in (ROOT / file).read_text(encoding="utf-8"), (file, name)


def test_every_page_that_code_names_exists() -> None:
    folders = (
        "benchmarks",
        "grader/answer_grader",
        "profiles",
        "snakemake_logger_plugin_stair",
        "stair",
        "tests",
        "workflow",
    )
    inside = (path for folder in folders for path in (ROOT / folder).rglob("*"))
    texts = [*PAGES, *ROOT.glob("*.yaml"), ROOT / "Makefile", ROOT / "Snakefile", *inside]
    named = {
        (path.relative_to(ROOT).as_posix(), page)
        for path in texts
        if path.suffix in ("", ".md", ".py", ".smk", ".yaml", ".rst") and path.is_file()
        for page in re.findall(r"\bdocs/[\w/]+\.md\b", path.read_text(encoding="utf-8"))
    }
    assert len(named) > 50
    assert [one for one in sorted(named) if not (ROOT / one[1]).is_file()] == []


def test_an_experiment_has_a_date_a_question_and_a_decision_in_the_order_of_dates() -> None:
    topics = prose(ROOT / "docs" / "developers" / "experiments.md").split("\n## ")[1:]
    assert len(topics) > 10
    for topic in topics:
        name, *entries = topic.split("\n- ")
        dates = [entry[:10] for entry in entries]
        assert dates and dates == sorted(dates), name
        for entry in entries:
            line = " ".join(entry.split())
            assert re.fullmatch(r"\d{4}-\d\d-\d\d \*\*[^*]+\?\*\* .+ Decision: .+\.", line), line
