"""A table as HTML: its spans, its emphasis, and text that is never markup."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

from stair.paper.html_table import html_table, html_text
from stair.paper.layout import Cell, Layout, Row
from tests.paper.test_layout import SMALL


def test_the_small_table() -> None:
    lines = html_table(SMALL).splitlines()
    assert lines == [
        '<figure class="table">',
        "<figcaption>Accuracy (%) of T2–T4 &amp; more.</figcaption>",
        '<div class="wide"><table>',
        "<thead>",
        '<tr><th></th><th class="spanning" colspan="2">MATH_500†</th></tr>',
        '<tr><th>Condition</th><th class="right">Avg@4</th><th class="right">Pass@4</th></tr>',
        "</thead>",
        "<tbody>",
        '<tr class="heading"><th colspan="3">A model</th></tr>',
        '<tr class="vanillarow"><td>Vanilla</td><td class="right">50.00</td><td class="right">–</td></tr>',
        '<tr class="stairrow ruled"><td><strong>STAIR</strong></td><td class="right"><strong><u>61.25</u></strong></td>'
        '<td class="right">70.00</td></tr>',
        '<tr class="heading"><th colspan="3">Another</th></tr>',
        '<tr><td>Native</td><td class="right">−1.00</td><td class="right stairrow"><u>2.00</u></td></tr>',
        "</tbody>",
        "</table></div>",
        '<p class="note">Not reported: a response is missing.</p>',
        '<p class="note">† Problems are left out.</p>',
        "</figure>",
    ]


def test_text_is_never_markup() -> None:
    assert html_text("<b> & 𝑝 -- 1∕2") == "&lt;b&gt; &amp; <i>p</i> – 1/2"
    text = '<script>alert("&")</script>'
    layout = Layout("x", text, (((text, 1), ("b", 1)),), (Row((Cell(text, bold=True), Cell("1"))),), (text,))
    tags: list[str] = []

    class Tags(HTMLParser):
        def handle_starttag(self, tag: str, attributes: object) -> None:
            tags.append(tag)

    Tags().feed(html_table(layout))
    assert "script" not in tags and "strong" in tags


def test_every_row_has_the_width_of_the_table() -> None:
    for layout in (SMALL, replace(SMALL, notes=())):
        rows = [line for line in html_table(layout).splitlines() if line.startswith("<tr")]
        for row in rows:
            spans = [int(part.split('"')[0]) for part in row.split('colspan="')[1:]]
            cells = row.count("<td") + row.count("<th")
            assert cells - len(spans) + sum(spans) == layout.width
