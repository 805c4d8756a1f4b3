"""A plan as text."""

from __future__ import annotations

from collections.abc import Sequence

from stair.pipeline.planning.run_plan import Line, Plan
from stair.records.progress import duration

_HOUR = 3600.0


def plan_text(plan: Plan) -> str:
    """The costs, the wall times and the claims."""
    return "\n".join([*cost_lines(plan), "", *claim_lines(plan)]) + "\n"


def cost_lines(plan: Plan) -> list[str]:
    """The costs by stage and model, and the wall times."""
    rows = [_cells(line) for line in (*plan.lines, plan.total)]
    head = ("stage", "model", "jobs", "job time", "GPU-hours", "tokens", "disk GB", "host GiB", "GPU GiB")
    lines = [*_aligned([head, *rows]), ""]
    lines.append(f"Longest chain of jobs: {duration(plan.longest_chain_hours * _HOUR)}.")
    if plan.total.gpu_hours:
        unit = "GPU" if plan.gpus == 1 else "GPUs"
        lines.append(f"With {plan.gpus} {unit}: {duration(plan.wall_hours * _HOUR)}.")
    if plan.money is not None:
        lines.append(f"At {plan.gpu_hour:,.2f} a GPU-hour: {plan.money:,.0f}.")
    if plan.unfit is not None:
        lines.append(f"With --profile slurm it is refused: {plan.unfit}.")
    lines.extend(
        f"{model}: shape unknown before fetch; assumed to have 8 billion parameters." for model in plan.unknown_models
    )
    return lines


def claim_lines(plan: Plan) -> list[str]:
    """Each claim: what the run lacks, or the effects that it detects beside the paper's."""
    lines = [
        "Claims: the effect in points that this run detects in four of five cases; the paper's effect; the samples of",
        "each problem that detect the paper's effect. A run of the models and benchmarks in brackets can test the claim.",
    ]
    for each in plan.claims:
        title = f"{each.claim.number:2d} {each.claim.title}"
        if each.lacking:
            lines.append(f"{title}: cannot be decided: {each.lacking}")
        elif each.parts:
            many = f"{each.too_small} of {len(each.parts)} effects are below the detectable one"
            lines.append(f"{title}: {many}; samples for all: {each.samples}")
        else:
            lines.append(f"{title}: can be tested")
        lines.append(f"     [{'; '.join(each.needs)}]")
        shown = [f"{part.part}: {part.detectable:.1f}; {part.paper:+.2f}; {part.samples}" for part in each.parts]
        lines.extend(f"     {text}" for text in shown)
    return lines


def _cells(line: Line) -> tuple[str, ...]:
    numbers = [f"{line.gpu_hours:,.1f}" if line.gpu_hours else "", f"{line.tokens / 1e6:,.2f}M" if line.tokens else ""]
    numbers += [
        f"{line.disk_gb:,.2f}" if line.disk_gb else "",
        f"{line.host_gib:.1f}",
        f"{line.gpu_gib:.0f}" if line.gpu_gib else "",
    ]
    return (line.stage, line.model, str(line.jobs), duration(line.job_seconds), *numbers)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
