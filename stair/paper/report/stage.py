"""The report stage: report.html, one file without scripts or links to the network."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.paper import paper_labels
from stair.paper.comparison.stage import structure_note
from stair.paper.exhibits import GAINS_FROM, Exhibit, exhibits
from stair.paper.html_table import html_text, note_line
from stair.paper.report.outcome import claims_of, comparison_of, gaps_of
from stair.paper.report.scope import scope_of
from stair.records.files import write_text

_FOLDER = Path(__file__).parent
TEMPLATE, STYLE = "page.html.jinja", "style.css"


def write_report(config: Config, paths: RunPaths) -> None:
    """Writes report.html: one page with the run's outcome, scope, cost, tables and figures. It needs no network."""
    write_text(paths.report, page(config, paths))
    print(paths.report)


def page(config: Config, paths: RunPaths) -> str:
    """The page's HTML."""
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=select_autoescape(["jinja"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    every = exhibits(config)
    parts = [_part(each, config, paths) for each in every]
    main = {GAINS_FROM}
    if not any(model in paper_labels.MODELS for model in config.models):
        main.add("comparisons")  # a model of the user's own: its gain is the result
    return environment.get_template(TEMPLATE).render(
        config=config,
        style=Markup((_FOLDER / STYLE).read_text(encoding="utf-8")),
        structure=structure_note(config),
        claims=claims_of(config, paths),
        comparison=comparison_of(paths, every),
        gaps=gaps_of(paths),
        scope=scope_of(config, paths),
        main_parts=[each for each in parts if each["name"] in main],
        paper_parts=[each for each in parts if each["in_paper"] and each["name"] not in main],
        other_parts=[each for each in parts if not each["in_paper"] and each["name"] not in main],
    )


def _part(each: Exhibit, config: Config, paths: RunPaths) -> dict[str, Any]:
    """A table or figure as the template shows it; links are relative to the page."""
    suffixes = (".csv", ".md", ".tex") if each.kind == "table" else (".csv", ".png", ".pdf")
    common = {
        "kind": each.kind,
        "name": each.name,
        "heading": each.heading,
        "anchor": each.anchor,
        "in_paper": each.in_paper,
        "links": [(suffix[1:], each.file(paths, suffix).relative_to(paths.folder).as_posix()) for suffix in suffixes],
    }
    if each.kind == "table":
        html = each.file(paths, ".html").read_text(encoding="utf-8")
        # The page has the run's note once, at its top.
        return common | {"html": Markup(html.replace(note_line(config.note) + "\n", "") if config.note else html)}
    picture = base64.b64encode(each.file(paths, ".png").read_bytes()).decode()
    return common | {"picture": Markup(picture), "caption": Markup(html_text(each.caption)), "alt": each.caption}
