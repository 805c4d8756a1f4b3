"""The report's page: what a phone shows, and what it says of copied outputs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from stair.config.paths import RunPaths
from stair.config.resolve import resolve
from stair.paper.report import stage
from stair.paper.report.scope import scope_of
from stair.records.manifest import COPIED_FROM

ROOT = Path(__file__).parents[2]


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


@pytest.mark.parametrize(
    ("copied", "said"), [(0, ""), (1, "1 of 2 outputs were copied from another run or a published folder.")]
)
def test_copied_outputs_are_counted_among_those_that_exist(tmp_path: Path, copied: int, said: str) -> None:
    config = resolve(ROOT, {"run": "smoke"})
    facts = {
        "costs": {"rules": {}, "generated": {"all": {"responses": 0, "response_tokens": 0}}},
        "outputs": {"own": {}, "absent": None, "other": {COPIED_FROM: "results/other"} if copied else {}},
        "models": {key: {} for key in config.models},
        "data_sets": {key: {} for key in config.benchmarks},
        "sealed": {"first": None, "last": None},
        "configuration": "digest",
        **{name: [] for name in ("versions", "hardware", "code")},
        "devices": {},
    }
    (tmp_path / "provenance.json").write_text(json.dumps(facts))
    assert scope_of(config, RunPaths(tmp_path))["copied"] == said
