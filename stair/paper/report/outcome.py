"""The outcome of a run for its report: claims, counts of compared values, and what is missing with the reasons."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.paper import paper_labels
from stair.paper.claims.claims_csv import read_claim_lines, shown_effect, shown_interval
from stair.paper.claims.verdicts import Verdict as ClaimVerdict
from stair.paper.comparison.compared import Verdict
from stair.paper.comparison.comparison_csv import structure_line
from stair.paper.comparison.run_facts import stand_ins
from stair.paper.layout import DASH
from stair.paper.paper_order import HISTORY, TURNS

_CLASSES = {
    ClaimVerdict.HOLDS: "good",
    ClaimVerdict.FAILS: "bad",
    ClaimVerdict.UNDECIDED: "open",
    ClaimVerdict.NOT_RUN: "none",
}


@dataclass(frozen=True)
class ClaimLine:
    """A claim of the paper and its verdict on the run."""

    number: str
    title: str
    section: str
    quote: str
    verdict: str
    style: str
    """The class of the verdict's mark; none where models or data are not the paper's."""
    paper: tuple[str, str]
    """The paper's joint effect and its interval."""
    effect: tuple[str, str]
    """The run's."""
    parts: str
    """How many parts have the stated direction."""
    more: str
    """Why the claim was not run or does not hold, or what would decide it."""


@dataclass(frozen=True)
class Claims:
    """All claims, and how many have each verdict."""

    lines: tuple[ClaimLine, ...]
    counts: tuple[tuple[str, str, int], ...]
    """Verdict, class of its mark, number of claims."""


@dataclass(frozen=True)
class Comparison:
    """How many of the paper's printed values have each verdict, by where the paper prints them."""

    verdicts: tuple[str, ...]
    rows: tuple[tuple[str, str | None, tuple[int, ...]], ...]
    """The paper's label, the anchor of our table or figure of it, the counts."""
    total: tuple[int, ...]


@dataclass(frozen=True)
class MissingNumbers:
    """Printed values that the run lacks for one reason."""

    reason: str
    count: int
    artifacts: tuple[str, ...]
    """The paper's labels of where it prints them."""


def structure_note(config: Config) -> str:
    """One line on a run whose models or data stand for the paper's; empty for any other run."""
    foreign = stand_ins(config)
    return structure_line(foreign) if foreign else ""


def claims_of(config: Config, paths: RunPaths) -> Claims | None:
    """The claims of a run; None for a run without them."""
    if not paths.claims().is_file():
        return None
    note = structure_note(config)
    styles = dict.fromkeys(ClaimVerdict, "none") if note else _CLASSES
    lines = tuple(
        ClaimLine(
            line["claim"],
            line["title"],
            line["section"],
            line["quote"],
            line["verdict"],
            styles[ClaimVerdict(line["verdict"])],
            (_shown(shown_effect(line, "paper")), shown_interval(line, "paper_low", "paper_high")),
            (_shown(shown_effect(line)), shown_interval(line)),
            f"{line['parts_as_stated']} of {line['parts']}",
            # The page gives the note once.
            "; ".join(filter(None, (line["reason"].removesuffix(note).removesuffix("; "), _to_decide(line)))),
        )
        for line in read_claim_lines(paths.claims())
    )
    counts = Counter(line.verdict for line in lines)
    return Claims(lines, tuple((verdict.value, styles[verdict], counts[verdict]) for verdict in ClaimVerdict))


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


def comparison_of(paths: RunPaths, names: Collection[str]) -> Comparison | None:
    """The counts of compared values; `names` are the tables and figures on the page."""
    if not paths.comparison().is_file():
        return None
    verdicts = tuple(verdict.value for verdict in Verdict)
    counts: dict[str, Counter[str]] = {}
    for line in _lines(paths.comparison()):
        counts.setdefault(line["artifact"], Counter())[line["verdict"]] += 1
    rows = [
        (artifact, _anchor(artifact, names), tuple(each[verdict] for verdict in verdicts))
        for artifact, each in counts.items()
    ]
    total = tuple(sum(row[2][column] for row in rows) for column in range(len(verdicts)))
    return Comparison(verdicts, tuple(rows), total)


def gaps_of(paths: RunPaths) -> tuple[MissingNumbers, ...]:
    """Printed values that the run lacks, by reason; the reason of most values first."""
    if not paths.comparison().is_file():
        return ()
    by_reason: dict[str, list[str]] = {}
    for line in _lines(paths.comparison()):
        if line["verdict"] == Verdict.NOT_RUN:
            by_reason.setdefault(line["reason"], []).append(line["artifact"])
    gaps = [
        MissingNumbers(reason, len(artifacts), tuple(dict.fromkeys(artifacts)))
        for reason, artifacts in by_reason.items()
    ]
    return tuple(sorted(gaps, key=lambda gap: -gap.count))


def _lines(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


_ANCHORS = {
    **{paper_labels.history(model): f"table-{HISTORY}{model}" for model in paper_labels.MODELS},
    **{paper_labels.turns(model): f"table-{TURNS}{model}" for model in paper_labels.MODELS},
    paper_labels.SUMMARY: "table-continuous_summary",
    paper_labels.POOLED: "table-history_correctness_summary",
    paper_labels.TRANSITIONS: "table-native_accuracy",
    paper_labels.LORA: "table-lora_comparison",
    paper_labels.LORA_TURNS: "table-lora_turns",
    paper_labels.SHARED_T1: "table-shared_t1",
    paper_labels.BANK_PREFIXES: "table-bank_prefix_accuracy",
    paper_labels.BANK_RUNTIME: "table-bank_runtime",
    paper_labels.REPLAY_DESIGN: "table-replay_design",
    paper_labels.CONTROLLERS: "table-controller_configuration",
    paper_labels.DECODING: "table-evaluation_decoding",
    paper_labels.HISTORICAL_COMPUTATION: "figure-historical_computation",
    paper_labels.ATTENTION: "figure-attention",
    paper_labels.NEIGHBORHOOD: "figure-neighborhood",
    paper_labels.READ_PREDICTION: "figure-read_prediction",
}
"""The place on the page of each artifact; numbers of the text are in the table in_text."""


def _anchor(artifact: str, names: Collection[str]) -> str | None:
    anchor = _ANCHORS.get(artifact, "table-in_text")
    return anchor if anchor.partition("-")[2] in names else None
