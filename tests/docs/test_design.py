"""docs/design.md: its picture of the graph and the rule that it quotes are those of the workflow."""

from __future__ import annotations

import html
import re
from pathlib import Path

from tests.listed import listed

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
PICTURE = (ROOT / "docs" / "images" / "rulegraph.svg").read_text(encoding="utf-8")

Arrows = set[tuple[str, str]]


def of_picture() -> Arrows:
    """The arrows of the picture, by the rules' names."""
    names = dict(re.findall(r'class="node">\s*<title>(\w+)</title>.*?<text[^>]*>(\w+)</text>', PICTURE, re.DOTALL))
    arrows = re.findall(r'class="edge">\s*<title>(\w+)->(\w+)</title>', html.unescape(PICTURE))
    return {(names[first], names[last]) for first, last in arrows}


def of_workflow() -> Arrows:
    """The rules that need outputs of others in the paper's run, but for those that the picture leaves out."""
    jobs = listed("paper")
    maker = {file: job.rule for job in jobs for file in job.outputs}
    arrows = {(maker[file], job.rule) for job in jobs for file in job.inputs if file in maker}
    return {
        (first, last)
        for first, last in arrows
        if first != last and not (first.startswith("seal_") and last.endswith("_shard") and (last, first) in arrows)
    }


def closure(arrows: Arrows) -> Arrows:
    """The arrows and those that follow from them."""
    while more := {(a, d) for a, b in arrows for c, d in arrows if b == c} - arrows:
        arrows = arrows | more
    return arrows


def test_the_picture_is_the_papers_graph() -> None:
    """The picture lacks only arrows that follow from others. A machine with the models has no download."""
    picture = {arrow for arrow in of_picture() if arrow[0] != "fetch_hub"}
    workflow = {arrow for arrow in of_workflow() if arrow[0] != "fetch_hub"}
    assert len(picture) > 30
    assert picture <= workflow
    assert closure(picture) == closure(workflow)


def test_the_quoted_rule_is_the_workflows_without_its_log() -> None:
    (quoted,) = re.findall(r"```\n(rule seal_evaluation:\n.*?)```", PAGE, re.DOTALL)
    rules = (ROOT / "workflow" / "rules" / "evaluation.smk").read_text(encoding="utf-8")
    own = "rule seal_evaluation:\n" + rules.partition("rule seal_evaluation:\n")[2].partition("\n\n")[0].rstrip() + "\n"
    assert quoted == re.sub(r"    log:\n.*\n", "", own)
