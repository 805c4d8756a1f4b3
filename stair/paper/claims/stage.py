"""The claims stage: the paper's claims on a run, or on a folder of scored rows; claims.csv and the short table of it."""

from __future__ import annotations

import csv
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.core import SHARED_T1
from stair.paper import terminal
from stair.paper.claims.parts import Evidence, parts_of
from stair.paper.claims.statements import paper_effects, read_claims
from stair.paper.claims.verdicts import STANDARD_ERRORS, ClaimVerdict, Judged, judge
from stair.paper.comparison.ours import read_ours
from stair.paper.comparison.stage import structure_note
from stair.paper.exhibits import Exhibit, reported_values
from stair.paper.layout import DASH, Layout, markdown, signed
from stair.paper.scored_rows import read_rows, scored_files
from stair.paper.tables.table import Column, Table
from stair.paper.tables.table import Line as TableLine
from stair.records.files import write_text
from stair.records.text_tables import csv_table
from stair.statistics.effects import Effect
from stair.statistics.grid import Gap

COLUMNS = (
    *("claim", "title", "section", "quote", "part", "verdict", "effect", "low", "high", "unit", "p", "problems"),
    *("problems_to_decide", "samples_to_decide", "times_to_decide", "seeds", "seeds_as_stated"),
    *("parts", "parts_as_stated", "paper", "paper_low", "paper_high", "reason"),
)
Line = dict[str, str]


def claims_csv(judged: Sequence[Judged], note: str) -> str:
    """A line for each claim (`part` is empty; the effect is the joint one of its parts), and one for each of its parts.

    `note` ends every reason: it says where models or data are not the paper's.
    """
    lines = [line for each in judged for line in _lines(each)]
    for line in lines:
        line["reason"] = "; ".join(filter(None, (line["reason"], note)))
    return csv_table(COLUMNS, ([line.get(column, "") for column in COLUMNS] for line in lines))


def _lines(judged: Judged) -> Iterator[Line]:
    claim = judged.claim
    names = {"claim": str(claim.number), "title": claim.title, "section": claim.section}
    names["quote"] = " [...] ".join(claim.quotes)
    whole = {"verdict": judged.verdict, "reason": judged.reason, **_numbers(judged.joint, judged.unit)}
    whole |= {"parts": str(len(judged.parts)), "parts_as_stated": str(judged.as_stated)}
    if (paper := paper_effects().get(claim.number)) is not None:
        ends = {"estimate": "paper", "low": "paper_low", "high": "paper_high"}
        whole |= {"unit": paper.unit, **{name: f"{getattr(paper.joint, end):g}" for end, name in ends.items()}}
    yield names | whole
    for part, verdict in zip(judged.parts, judged.verdicts, strict=True):
        line = {"part": part.name, "verdict": verdict, "reason": part.gap, **_numbers(part.effect, part.unit)}
        yield names | line | {"parts": "1", "parts_as_stated": str(int(part.as_stated))}


def _numbers(effect: Effect | Gap | None, unit: str) -> Line:
    """An effect with its interval, unit and sizes; empty if it was not run, without ends if these are unknown."""
    if effect is None or isinstance(effect, Gap):
        return {}
    interval, seeds = effect.interval, effect.seeds
    numbers: dict[str, float | None] = {"effect": interval.estimate, "low": interval.low, "high": interval.high}
    numbers |= {"p": effect.p_value, "problems": effect.problems, "problems_to_decide": effect.deciding}
    numbers |= {"samples_to_decide": effect.deciding_samples, "times_to_decide": effect.deciding_factor}
    if seeds:
        numbers |= {"seeds": len(seeds), "seeds_as_stated": sum(each > 0.0 for each in seeds)}
    known = {name: number for name, number in numbers.items() if number is not None and isfinite(number)}
    return {"unit": unit} | {name: f"{number:.12g}" for name, number in known.items()}


def read_claim_lines(path: Path) -> list[Line]:
    """The lines of claims.csv for whole claims, each with the number of its parts that were run (`run`)."""
    with open(path, encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    run = Counter(line["claim"] for line in lines if line["part"] and line["verdict"] != ClaimVerdict.NOT_RUN)
    return [line | {"run": str(run[line["claim"]])} for line in lines if not line["part"]]


def shown_effect(line: Mapping[str, str], column: str = "effect") -> str:
    """An effect of a line with its unit, as tables print it."""
    unit = {STANDARD_ERRORS: "SE"}.get(line["unit"], line["unit"])
    return f"{_signed(float(line[column]))} {unit}".rstrip() if line[column] else DASH


def shown_interval(line: Mapping[str, str], low: str = "low", high: str = "high") -> str:
    """The interval in these columns; empty without one."""
    return f"[{_signed(float(line[low]))}, {_signed(float(line[high]))}]" if line[low] and line[high] else ""


def _signed(value: float) -> str:
    """Two digits, or three significant ones of a small number."""
    return signed(value) if abs(value) >= 0.1 or value == 0.0 else f"{value:+.3g}".replace("-", "−")


def run(config: Config, paths: RunPaths) -> None:
    """Test the paper's claims on the run (docs/comparison.md). Writes claims.csv and the short claims.md."""
    judged = of_run(config, paths)
    if writable := os.access(paths.folder, os.W_OK):  # a reader of somebody else's run gets the counts
        write(judged, config, paths.claims())
    counts = Counter(each.verdict for each in judged)
    where = paths.claims(".md") if writable else f"{paths.folder} (not written: its folder is read-only)"
    print(f"{where}: " + ", ".join(f"{count} {verdict}" for verdict, count in counts.items()))


def show(config: Config, paths: RunPaths) -> None:
    """Prints the short table."""
    terminal.show(paths.claims(".md"))


def of_run(config: Config, paths: RunPaths) -> list[Judged]:
    """Every claim on a run, from the files of its tables, figures and scored rows."""
    return of_files(config, reported_values(config, paths), *scored_files(config, paths))


def of_files(config: Config, values: Iterable[Path], rows: Sequence[Path], shared: Sequence[Path]) -> list[Judged]:
    """Every claim; the arguments are those of the comparison."""
    responses, study = read_rows(rows, config)[0], read_rows(shared, config, study=SHARED_T1)[0]
    evidence = Evidence(config, responses, study, read_ours(values, config))
    return [judge(claim, parts_of(claim, evidence)) for claim in read_claims()]


def layout(path: Path, config: Config) -> Layout:
    """The short table of a claims.csv: verdicts, effects, and the problems that would decide."""
    every = read_claim_lines(path)
    tested = [line for line in every if line["verdict"] != ClaimVerdict.NOT_RUN]
    # What fails first.
    tested.sort(key=lambda line: line["verdict"] != ClaimVerdict.FAILS)
    lines = []
    for line in tested:
        decides = f"{float(line['problems_to_decide']):,.0f}" if line["problems_to_decide"] else DASH
        if line["times_to_decide"]:
            decides = f"×{float(line['times_to_decide']):.2g}"
        parts = f"{line['parts_as_stated']}/{line['run']}"
        lines.append(TableLine((line["claim"], line["title"], line["verdict"], shown_effect(line), parts, decides)))
    titles = ("#", "Claim", "Verdict", "Effect", "Parts", "Needs")
    columns = [Column(title, align=align) for title, align in zip(titles, "lllrrr", strict=True)]
    caption = (
        "The paper's claims on this run. Effect: the mean over a claim's parts. Parts: how many of those that were run have "
        "the stated sign. Needs: how many problems would decide the claim, or (×) how many times as many problems or "
        "histories as this run has."
    )
    rest = len(every) - len(tested)
    missing = f"{rest} of {len(every)} claims were not run: claims.csv has the reasons." if rest else ""
    notes = tuple(filter(None, (missing, structure_note(config), config.note)))
    return Table.of(Exhibit("table", "claims", ""), caption, columns, [("", lines)], (), notes).layout


def write(judged: Sequence[Judged], config: Config, path: Path) -> None:
    """Writes claims.csv to `path` and the short table beside it as Markdown."""
    write_text(path, claims_csv(judged, structure_note(config)))
    write_text(path.with_suffix(".md"), markdown(layout(path, config)))
