"""The comparison stage: tables and figures of a run, or of a folder of scored rows, beside the paper's values."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.core import SHARED_T1
from stair.paper import terminal
from stair.paper.comparison.compared import Compared, Verdict, compare
from stair.paper.comparison.ours import read_ours
from stair.paper.comparison.printed import Kind, PrintedPlace, printed_values
from stair.paper.comparison.run_facts import RunFacts, stand_ins
from stair.paper.exhibits import reported_values
from stair.paper.paper_labels import printed_at
from stair.paper.scored_rows import read_rows, scored_files
from stair.records.files import write_text
from stair.records.text_tables import csv_table, markdown_table


def run(config: Config, paths: RunPaths) -> None:
    """Compare a run's numbers with the paper's (docs/comparison.md). Writes comparison.csv and .md."""
    compared = of_run(config, paths)
    if writable := os.access(paths.folder, os.W_OK):  # a reader of somebody else's run gets the counts
        write(compared, config, paths.comparison())
    counts = Counter(each.verdict for each in compared)
    where = paths.comparison(".md") if writable else f"{paths.folder} (not written: its folder is read-only)"
    print(f"{where}: " + ", ".join(f"{count} {verdict}" for verdict, count in counts.items()))


def of_run(config: Config, paths: RunPaths) -> list[Compared]:
    """Every printed value beside the run's, from the files of its tables, figures and scored rows."""
    return of_files(config, reported_values(config, paths), *scored_files(config, paths))


def of_files(config: Config, values: Iterable[Path], rows: Sequence[Path], shared: Sequence[Path]) -> list[Compared]:
    """Every printed value beside those of tidy CSVs.

    Args:
        values: CSVs of tables and figures.
        rows: the evaluation's scored rows, from which intervals of sampled numbers follow.
        shared: scored rows of the study with a shared T1 history.
    """
    responses, _ = read_rows(rows, config)
    return compare(
        printed_values(),
        read_ours(values, config),
        RunFacts(config, responses, *read_rows(shared, config, study=SHARED_T1)),
    )


def write(compared: list[Compared], config: Config, path: Path) -> None:
    """Writes comparison.csv to `path` and the summary beside it."""
    write_text(path, comparison_csv(compared))
    write_text(path.with_suffix(".md"), summary(compared, structure_note(config), config.note))


def show(config: Config, paths: RunPaths) -> None:
    """Prints the summary."""
    terminal.show(paths.comparison(".md"))


COLUMNS = (*PrintedPlace._fields, "kind", "paper", "ours", "low", "high", "difference", "p", "verdict", "reason")
_WORST, _REASONS = 10, 8


def comparison_csv(compared: Sequence[Compared]) -> str:
    """One line for each printed value. Numbers that do not apply are empty."""
    return csv_table(COLUMNS, map(_line, compared))


def _line(each: Compared) -> list[str]:
    numbers = (each.ours, each.low, each.high, each.difference, each.p_value)
    printed = each.printed
    return [*printed.place, printed.kind, printed.text, *map(_number, numbers), each.verdict, each.reason]


def _number(value: float | None) -> str:
    # Twelve digits: more than a difference of two decimal numbers has, fewer than binary floating point adds.
    return "" if value is None else f"{value:.12g}"


def summary(compared: Sequence[Compared], structure: str = "", note: str | None = None) -> str:
    """Counts by kind and verdict, the worst differences, and why values were not run."""
    lines = ["# The run beside the paper", ""]
    if structure:
        lines += [structure, ""]
    counts = Counter((each.printed.kind, each.verdict) for each in compared)
    rows = [[kind, *(str(counts[kind, verdict] or "") for verdict in Verdict)] for kind in Kind]
    rows.append(["all", *(str(sum(counts[kind, verdict] for kind in Kind) or "") for verdict in Verdict)])
    lines += markdown_table(["kind", *Verdict], rows)
    different = [each for each in compared if each.verdict is Verdict.DIFFERS]
    if different:
        lines += ["", f"The {min(_WORST, len(different))} worst of {len(different)} differences, by p:", ""]
        worst = sorted(different, key=lambda each: (each.p_value is not None, each.p_value or 0.0))[:_WORST]
        header = ["where", "paper", "ours", "difference", "p"]
        lines += markdown_table(header, [_worst_row(each) for each in worst])
    missing = defaultdict[str, Counter[str]](Counter)
    for each in compared:
        if each.verdict is Verdict.NOT_RUN:
            missing[each.reason][printed_at(each.printed.place.artifact)] += 1
    if missing:
        reasons = sorted(missing.items(), key=lambda item: -item[1].total())
        lines += ["", "Values that were not run:", ""]
        lines += [f"- {places.total()} of {', '.join(places)}: {reason}" for reason, places in reasons[:_REASONS]]
        if rest := sum(places.total() for _, places in reasons[_REASONS:]):
            lines.append(f"- {rest} more, for other reasons (column `reason` of `comparison.csv`)")
    lines += ["", "`comparison.csv` has every value. The method: docs/comparison.md."]
    if note:
        lines += ["", note]
    return "\n".join(lines) + "\n"


def structure_note(config: Config) -> str:
    """One line on a run with stand-ins for the paper's models or data; empty for any other run."""
    if not (count := len(stand_ins(config))):
        return ""
    replace, them = ("replaces one", "it") if count == 1 else ("replace those", "these")
    return (
        f"{count} of this run's models and benchmarks {replace} of the paper: verdicts and numbers are about {them}, "
        "not about the paper's."
    )


def _worst_row(each: Compared) -> list[str]:
    place = each.printed.place
    where = ", ".join(filter(None, (printed_at(place.artifact), *place[1:-1])))
    assert each.ours is not None and each.difference is not None
    p_value = "" if each.p_value is None else f"{each.p_value:.2g}"
    return [where, each.printed.text, f"{each.ours:.6g}", f"{each.difference:+.4g}", p_value]
