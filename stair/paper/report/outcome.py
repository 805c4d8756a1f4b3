"""The outcome of a run for its report: claims, counts of compared values, and what is missing with the reasons."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.paper import paper_labels
from stair.paper.claims.stage import read_claim_lines, shown_effect, shown_interval
from stair.paper.claims.verdicts import Verdict as ClaimVerdict
from stair.paper.comparison.compared import Verdict
from stair.paper.comparison.stage import structure_note
from stair.paper.layout import DASH

_CLASSES = {
    ClaimVerdict.HOLDS: "good",
    ClaimVerdict.FAILS: "bad",
    ClaimVerdict.UNDECIDED: "open",
    ClaimVerdict.NOT_RUN: "none",
}


def claims_of(config: Config, paths: RunPaths) -> dict[str, Any] | None:
    """The claims of a run, and how many have each verdict; None for a run without them."""
    if not paths.claims().is_file():
        return None
    note = structure_note(config)
    # Where models or data are not the paper's, verdicts have no marks.
    styles = dict.fromkeys(ClaimVerdict, "none") if note else _CLASSES
    lines = [
        {
            **{name: line[name] for name in ("title", "section", "quote", "verdict")},
            "number": line["claim"],
            "style": styles[ClaimVerdict(line["verdict"])],
            "paper": (_shown(shown_effect(line, "paper")), shown_interval(line, "paper_low", "paper_high")),
            "effect": (_shown(shown_effect(line)), shown_interval(line)),
            "parts": f"{line['parts_as_stated']} of {line['parts']}",
            # The page gives the note once.
            "more": "; ".join(filter(None, (line["reason"].removesuffix(note).removesuffix("; "), _to_decide(line)))),
        }
        for line in read_claim_lines(paths.claims())
    ]
    counts = Counter(line["verdict"] for line in lines)
    return {"lines": lines, "counts": [(verdict.value, styles[verdict], counts[verdict]) for verdict in ClaimVerdict]}


def _shown(effect: str) -> str:
    return effect.replace(DASH, "–")


def _to_decide(line: Mapping[str, str]) -> str:
    """What would decide an undecided claim."""
    if line["verdict"] != ClaimVerdict.UNDECIDED:
        return ""
    if line["problems_to_decide"]:
        return f"{float(line['problems_to_decide']):,.0f} problems would show this effect"
    return (
        f"{float(line['times_to_decide']):,.2g} times as many would show this effect" if line["times_to_decide"] else ""
    )


def comparison_of(paths: RunPaths, names: Collection[str]) -> dict[str, Any] | None:
    """How many printed values have each verdict, by the paper's label of where it prints them, and in total.

    `names` are the tables and figures on the page, to which the rows have anchors.
    """
    if not paths.comparison().is_file():
        return None
    verdicts = [verdict.value for verdict in Verdict]
    counts: dict[str, Counter[str]] = {}
    for line in _lines(paths.comparison()):
        counts.setdefault(line["artifact"], Counter())[line["verdict"]] += 1
    rows = [
        (artifact, _anchor(artifact, names), [each[verdict] for verdict in verdicts])
        for artifact, each in counts.items()
    ]
    total = [sum(each[verdict] for each in counts.values()) for verdict in verdicts]
    return {"verdicts": verdicts, "rows": rows, "total": total}


def gaps_of(paths: RunPaths) -> list[dict[str, Any]]:
    """Printed values that the run lacks, by reason; the reason of most values first."""
    by_reason: dict[str, list[str]] = {}
    for line in _lines(paths.comparison()) if paths.comparison().is_file() else ():
        if line["verdict"] == Verdict.NOT_RUN:
            by_reason.setdefault(line["reason"], []).append(line["artifact"])
    gaps = [
        {"reason": reason, "count": len(artifacts), "artifacts": list(dict.fromkeys(artifacts))}
        for reason, artifacts in by_reason.items()
    ]
    return sorted(gaps, key=lambda gap: -len(by_reason[gap["reason"]]))


def _lines(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


_NAMES = {label: name for name, label in paper_labels.ARTIFACTS.items()}


def _anchor(artifact: str, names: Collection[str]) -> str | None:
    """The place on the page of an artifact; numbers of the text are in the table in_text."""
    name = _NAMES.get(artifact, "in_text")
    return f"{'figure' if artifact.startswith('fig:') else 'table'}-{name}" if name in names else None
