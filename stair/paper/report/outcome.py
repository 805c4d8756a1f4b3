"""The outcome of a run for its report: claims, counts of compared values, and what is missing with the reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.paper.claims.stage import read_claim_lines, shown_effect, shown_interval
from stair.paper.claims.verdicts import ClaimVerdict
from stair.paper.comparison.compared import Verdict
from stair.paper.comparison.stage import structure_note
from stair.paper.exhibits import Exhibit
from stair.paper.layout import DASH
from stair.paper.paper_labels import printed_at

_CLASSES = {
    ClaimVerdict.HOLDS: "good",
    ClaimVerdict.FAILS: "bad",
    ClaimVerdict.UNDECIDED: "open",
    ClaimVerdict.PARTLY_RUN: "none",
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
            "run": line["verdict"] != ClaimVerdict.NOT_RUN,
            **{name: line[name] for name in ("title", "section", "quote", "verdict")},
            "number": line["claim"],
            "style": styles[ClaimVerdict(line["verdict"])],
            "paper": (_shown(shown_effect(line, "paper")), shown_interval(line, "paper_low", "paper_high")),
            "effect": (_shown(shown_effect(line)), shown_interval(line)),
            "parts": f"{line['parts_as_stated']} of {line['run']}" if line["effect"] else "–",
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
    """What would decide an undecided claim, if its true effect is this run's."""
    if line["verdict"] != ClaimVerdict.UNDECIDED or not (line["problems_to_decide"] or line["times_to_decide"]):
        return ""
    decides = "decide against it" if line["effect"].startswith("-") else "decide it"
    if line["problems_to_decide"]:
        return f"{float(line['problems_to_decide']):,.0f} problems would {decides}; this run has {line['problems']}"
    return f"{float(line['times_to_decide']):,.2g} times this run's problems or histories would {decides}"


def comparison_of(paths: RunPaths, every: Sequence[Exhibit]) -> dict[str, Any] | None:
    """How many printed values have each verdict, by where it prints them, and in total.

    `every` are the tables and figures on the page, to which the rows have anchors.
    """
    if not paths.comparison().is_file():
        return None
    frame, verdicts = _values(paths), [verdict.value for verdict in Verdict]
    counts = {artifact: Counter(lines) for artifact, lines in frame.groupby("artifact", sort=False)["verdict"]}
    rows = [
        (printed_at(str(name)), _anchor(str(name), every), [each[verdict] for verdict in verdicts])
        for name, each in counts.items()
    ]
    total = Counter(frame["verdict"])
    return {"verdicts": verdicts, "rows": rows, "total": [total[verdict] for verdict in verdicts]}


def gaps_of(paths: RunPaths) -> list[dict[str, Any]]:
    """Printed values that the run lacks, by reason; the reason of most values first."""
    if not paths.comparison().is_file():
        return []
    frame = _values(paths)
    missing = frame[frame["verdict"] == Verdict.NOT_RUN]
    gaps = [
        {"reason": reason, "count": len(artifacts), "places": list(map(printed_at, artifacts.unique()))}
        for reason, artifacts in missing.groupby("reason", sort=False)["artifact"]
    ]
    return sorted(gaps, key=lambda gap: -gap["count"])


def _values(paths: RunPaths) -> pd.DataFrame:
    return pd.read_csv(paths.comparison(), dtype=str, keep_default_na=False)


def _anchor(artifact: str, every: Sequence[Exhibit]) -> str | None:
    """The place on the page of an artifact; numbers of the text are in the table in_text."""
    of_table_or_figure = artifact.startswith(("tab:", "fig:"))
    anchors = {each.artifact: each.anchor for each in every}
    return anchors.get(artifact if of_table_or_figure else "in_text")
