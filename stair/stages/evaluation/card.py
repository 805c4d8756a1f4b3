"""The data card of a model's evaluation responses: what was generated, how it ended, which positions reads used."""

from __future__ import annotations

from collections import Counter, defaultdict
from statistics import median
from typing import Any

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.core import EngineIdentity
from stair.records.files import write_text
from stair.records.manifest import missing_responses
from stair.records.schemas import RESPONSES
from stair.records.tables import read_table
from stair.records.text_tables import markdown_table
from stair.sessions.positions import AuxiliaryPositions

_READ = ("response_tokens", "finish_reason", "bank_tokens", *EngineIdentity.COLUMNS)
_CONTENTS = (
    *("benchmark", "condition", "responses", "missing"),
    *("stop", "length", "context", "median tokens", "most tokens"),
)
_POSITIONS = (
    *("benchmark", "condition", "longest bank", "largest position", "context"),
    *("responses beyond", "queries beyond", "entries beyond"),
)


def write_card(config: Config, paths: RunPaths, model: str) -> None:
    """Writes responses/<model>.README.md. Raises ValueError if a condition's sealed responses cannot be read."""
    contents, positions = [], []
    made_by: dict[str, set[str]] = defaultdict(set)
    for benchmark in config.benchmarks_of(model):
        for condition in (name for name in config.conditions if (model, benchmark) in config.evaluated(name)):
            path = paths.responses(model, benchmark, condition)
            rows = read_table(path, RESPONSES, _READ)
            contents.append((benchmark, condition, *_endings(rows, len(missing_responses(path)))))
            if config.reads_bank(condition):
                positions.append((benchmark, condition, *_positions(rows, AuxiliaryPositions.recorded(path))))
            for name in EngineIdentity.COLUMNS:
                made_by[name] |= {row[name] for row in rows}
    text = [
        f"# Evaluation responses of {config.models[model].label}",
        "",
        *([config.note, ""] if config.note else []),
        "One file for each benchmark and condition, `<benchmark>/<condition>.parquet`, without verdicts. The scored "
        "rows are in `evaluation/`.",
        "",
        "## What is in it",
        "",
        "`stop`, `length` and `context` count responses by their ending: an end marker, the output limit, the model's "
        "context. `missing` counts responses that could not be generated; the manifest beside the file names them.",
        "",
        *markdown_table(_CONTENTS, contents),
        "",
        "## Auxiliary positions beyond the context",
        "",
        "A read of M bank entries gives the entries the positions 0 to M - 1, and the prompt token at position p the "
        "position M + p. Positions that the model's context does not have are counted and not clamped, once for all "
        "layers and heads: those of prompt tokens (queries) and of bank entries. Scored rows hold the count of a "
        "response as `beyond_context`.",
        "",
        *(markdown_table(_POSITIONS, positions) if positions else ["No condition reads a bank."]),
        "",
        "## How it was made",
        "",
        *markdown_table(
            ("setting", "value"), [(name, ", ".join(sorted(made_by[name]))) for name in EngineIdentity.COLUMNS]
        ),
    ]
    output = paths.response_card(model)
    write_text(output, "\n".join(text) + "\n")
    print(f"{model}: {output}")


def _endings(rows: list[dict[str, Any]], missing: int) -> list[str]:
    endings = Counter(row["finish_reason"] for row in rows)
    lengths = [row["response_tokens"] for row in rows]
    ended = [f"{endings[name]:,}" for name in ("stop", "length", "context")]
    of_lengths = [f"{median(lengths):,.0f}", f"{max(lengths):,}"] if lengths else ["none"] * 2  # all may be missing
    return [f"{len(rows):,}", f"{missing:,}", *ended, *of_lengths]


def _positions(rows: list[dict[str, Any]], counted: AuxiliaryPositions | None) -> list[str]:
    longest = f"{max((row['bank_tokens'] for row in rows), default=0):,}"
    if counted is None:
        return [longest, *["not recorded"] * 5]
    counts = (counted.context, counted.responses, counted.queries, counted.entries)
    context, *beyond = (f"{count:,}" for count in counts)
    return [longest, "none" if counted.largest is None else f"{counted.largest:,}", context, *beyond]
