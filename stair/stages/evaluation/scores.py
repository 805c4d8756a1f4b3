"""The scores stage: verdicts on generated rows, by a CPU rule of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from answer_grader import Item, grade_many
from answer_grader.answer_forms import answer_forms

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.records.manifest import missing_responses
from stair.records.rows import BenchmarkProblem
from stair.records.schemas import BENCHMARK, RESPONSES, SCORED
from stair.records.tables import read_table, rows_as, write_table
from stair.sessions.positions import AuxiliaryPositions, beyond_context


def score(
    config: Config, paths: RunPaths, model: str, benchmark: str, condition: str, workers: int = 1
) -> dict[str, Any]:
    """Gives verdicts on a condition's responses, in `workers` processes; returns facts for the manifest."""
    responses = paths.responses(model, benchmark, condition)
    table = rows_as(paths.benchmark(benchmark), BENCHMARK, BenchmarkProblem)
    problems = {problem.problem_id: problem for problem in table}
    columns = [column for column in SCORED.names if column in RESPONSES.names]
    rows = read_table(responses, RESPONSES, [*columns, "controlled_tokens"])
    positions = AuxiliaryPositions.recorded(responses)
    items = []
    for row in rows:
        problem = problems[row["problem_id"]]
        items.append(
            Item(
                response=row["response"],
                reference=problem.reference,
                kind=problem.kind,
                problem=problem.problem,
                choices=problem.choices,
                finish_reason=row["finish_reason"],
            )
        )
    verdicts = grade_many(items, workers=workers)
    scored = [
        {column: row[column] for column in columns}
        | dict(beyond_context=_beyond_context(row, positions))
        | dict(answer=verdict.answer, verdict=verdict.outcome.value, correct=verdict.correct)
        for row, verdict in zip(rows, verdicts, strict=True)
    ]
    write_table(paths.scored(model, benchmark, condition), SCORED, scored)
    counts = {
        verdict: sum(row["verdict"] == verdict for row in scored)
        for verdict in ("correct", "wrong", "no_answer", "timeout")
    }
    forms = answer_forms(items, verdicts)
    # Tables say why a response is missing, and read the files of this stage alone.
    missing = missing_responses(responses)
    print(f"{model}/{benchmark}/{condition}: " + ", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    if text := str(forms):
        print(text)
    return {"verdicts": counts, "answer_forms": asdict(forms), "missing": missing}


def _beyond_context(row: Mapping[str, Any], positions: AuxiliaryPositions | None) -> int | None:
    """A response's auxiliary positions beyond the recorded context, of queries and of bank entries together."""
    if positions is None:
        return None
    return sum(beyond_context(row["bank_tokens"], row["controlled_tokens"], row["prompt_tokens"], positions.context))
