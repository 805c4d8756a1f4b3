"""The Markdown page: hardware, versions, each figure beside its bar, failures with traceback."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.gpu.parts import Part
from benchmarks.gpu.running import Outcome

REDUCED = (
    "> **MADE ON A CPU AT REDUCED SHAPES. These figures say nothing about a GPU.** They show that every part runs.\n"
    "> Bars are for a GPU at the real shapes; here they are not judged."
)


def write_page(
    path: Path,
    *,
    device: str,
    begun: str,
    seconds: float,
    facts: Mapping[str, str],
    outcomes: Sequence[Outcome],
    waiting: Sequence[Part],
) -> None:
    """Write the page and rename it into place. `begun` is a date; `seconds` is the time so far."""
    lines = ["# What a GPU gives", ""]
    if device == "cpu":
        lines += [REDUCED, ""]
    lines += [f"Made by `make gpu` on {begun} in {clock(seconds)}. Models have random weights."]
    if waiting:
        lines += ["", f"**Unfinished: {', '.join(part.name for part in waiting)} did not end.**"]
    lines += _not_met(outcomes) if device == "cuda" else []
    lines += ["", "## Machine", "", "| | |", "|---|---|"]
    lines += [f"| {name} | {_cell(value)} |" for name, value in facts.items()]
    lines += ["", "## Parts", "", "| part | what it does | came to | time |", "|---|---|---|---:|"]
    for outcome in outcomes:
        lines.append(
            f"| {outcome.part.name} | {outcome.part.what} | {_came_to(outcome, device)} | {clock(outcome.seconds)} |"
        )
    for outcome in outcomes:
        lines += _section(outcome, device)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text("\n".join(lines) + "\n", encoding="utf-8")
    beside.replace(path)


def clock(seconds: float) -> str:
    """Minutes and seconds."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def number(value: float) -> str:
    """Four digits, or all that stand before the point."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def judged(figure: Figure, device: str) -> str:
    """How the figure does against its bars."""
    if not figure.measured:
        return "not measured"
    if not figure.bars:
        return ""
    if device == "cpu":
        return "not judged"
    return "; ".join(
        "met" if bar.met(figure.value) else "missed" if bar.target else "**missed**" for bar in figure.bars
    )


def _not_met(outcomes: Sequence[Outcome]) -> list[str]:
    """Parts that are not whole, missed bars, missed targets: what a reader wants first."""
    lines = [
        f"- {outcome.part.name} {outcome.status}: {_cell(outcome.reason)}" for outcome in outcomes if outcome.failed
    ]
    figures = [figure for outcome in outcomes for figure in outcome.report.figures if figure.measured]
    missed = [(figure, [bar for bar in figure.bars if not bar.met(figure.value)]) for figure in figures]
    for figure, bars in sorted(missed, key=lambda pair: all(bar.target for bar in pair[1])):
        if bars:
            lines.append(f"- {_cell(figure.name)}: {number(figure.value)} {figure.unit}, {'; '.join(map(str, bars))}")
    return ["", "## Not met", "", *(lines or ["Every part ran, every bar and target is met."])]


def _came_to(outcome: Outcome, device: str) -> str:
    if outcome.failed:
        return f"**{outcome.status}**: {_cell(outcome.reason)}"
    missed = outcome.missed if device == "cuda" else 0
    return f"ran; **{missed} bars missed**" if missed else "ran"


def _section(outcome: Outcome, device: str) -> list[str]:
    report = outcome.report
    lines = ["", f"## {outcome.part.name[0].upper()}{outcome.part.name[1:]}", ""]
    lines.append(f"`python -m {shlex.join([outcome.part.module, *outcome.part.arguments(device)])}`")
    if report.figures:
        lines += ["", "| figure | value | unit | bar | | note |", "|---|---:|---|---|---|---|"]
    for figure in report.figures:
        value = number(figure.value) if figure.measured else "-"
        bars = "; ".join(map(str, figure.bars))
        cells = (_cell(figure.name), value, figure.unit, bars, judged(figure, device), _cell(figure.note))
        lines.append(f"| {' | '.join(cells)} |")
    if report.left_out:
        lines += ["", *(f"- Left out: {_cell(name)}: {_cell(reason)}" for name, reason in report.left_out)]
    for name, text in report.failures:
        lines += ["", f"Failed: {_cell(name)}", "", *_code(text)]
    if outcome.failed and outcome.status != "not run" and not report.failures:
        lines += ["", f"{outcome.status[0].upper()}{outcome.status[1:]}: {outcome.reason}. The end of its output:", ""]
        lines += _code(outcome.output)
    return lines


def _cell(text: str) -> str:
    """Text that stays in one cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def _code(text: str, most: int = 60) -> list[str]:
    lines = text.splitlines()[-most:]
    fence = "`" * (3 + max((line.count("`") for line in lines), default=0))
    return [f"{fence}text", *lines, fence]
