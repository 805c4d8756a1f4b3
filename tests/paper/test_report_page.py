"""The report's page on a phone."""

from __future__ import annotations

import re

from stair.paper.report import stage


def test_a_phone_shows_claims_with_both_effects_and_verdicts() -> None:
    """Columns are hidden by a class of their own, because a number would be another column's after a change."""
    page, style = ((stage._FOLDER / name).read_text(encoding="utf-8") for name in (stage.TEMPLATE, stage.STYLE))
    phone = style.partition("@media (max-width: 40rem) {")[2].partition("\n}")[0]
    assert re.findall(r"([^{}]+)\{ display: none; \}", phone) == [" .minor "]
    assert "nth-child" not in style
    table = page.partition('<table class="claims">')[2].partition("</table>")[0]
    head, body = table.split("<tbody>")
    titles = re.findall(r'<th(?: class="(.*?)")?>(.*?)</th>', head)
    assert [title for _, title in titles] == ["#", "Claim", "Paper", "This run", "Parts", "Verdict"]
    assert [title for words, title in titles if "minor" in words] == ["#", "Parts"]
    # One cell of the template gives both effects.
    assert ["minor" in words for words in re.findall(r'<td(?: class="(.*?)")?>', body)] == [
        True,
        False,
        False,
        True,
        False,
    ]
