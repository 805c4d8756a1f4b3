"""The study with a shared T1 history: controls averaged over seeds, differences from Native, bank prefixes."""

import re

import pandas as pd

from stair.statistics.grid import Gap, Responses, unique
from stair.statistics.metrics import at_turn, difference, mean, metric_names
from stair.statistics.values import Value

TURN = 2
SEEDED = ("random_reflector", "kv_permutation")
_SEEDED = re.compile(rf"({'|'.join(SEEDED)})-(.+)")
_PREFIX = re.compile(r"stair_prefix-(\d+)")


def condition_family(condition: str) -> str:
    """`random_reflector-1` belongs to `random_reflector`; a condition without seeds is its own family."""
    match = _SEEDED.fullmatch(condition)
    return match[1] if match else condition


def prefix_entries(condition: str) -> int | None:
    """How many entries of the bank a prefix condition reads; None of another condition."""
    match = _PREFIX.fullmatch(condition)
    return int(match[1]) if match else None


def shared_t1_metrics(
    responses: Responses, model: str, benchmark: str, *, seeds: int = 3, reference: str = "native", full: str = "stair"
) -> list[Value]:
    """Avg@k, its difference from the reference in percentage points, and Pass@k at T2, for each family of conditions.

    Conditions with test-time seeds report the mean of the per-seed scores, and a gap unless all `seeds` are there.
    The reference and `full` are gaps where they have no rows; other conditions without rows are left out.
    """
    conditions = unique([*responses.conditions(model, benchmark), reference, full])
    conditions = [name for name in conditions if name != "t1"]
    families = unique(condition_family(name) for name in conditions)
    values = []
    for family in families:
        members = [name for name in conditions if condition_family(name) == family]
        for name, metric in metric_names(responses.samples).items():
            score = mean([at_turn(metric, responses, model, benchmark, member, TURN) for member in members])
            if family in SEEDED and len(members) != seeds:
                score = Gap(f"{model}, {benchmark}, {family}: {len(members)} of {seeds} test-time seeds are there")
            values.append(Value(model, benchmark, family, f"T{TURN}", "", name, score, "%"))
            if name.startswith("Avg"):
                delta = difference(score, at_turn(metric, responses, model, benchmark, reference, TURN))
                values.append(Value(model, benchmark, family, f"T{TURN}", "", f"{name} minus Native", delta, "pp"))
    return values


def truncated_banks(frame: pd.DataFrame, model: str, benchmark: str, *, full: str = "stair") -> list[Value]:
    """How many banks are longer than each prefix condition's number of readable entries (0 for the full bank).

    `frame` holds the study's rows with the column `bank_tokens`, which scored rows carry; without it, a gap. Reads
    the bank lengths from the `full` condition's rows, and where it has none from the prefixes' rows, since all
    conditions share their banks.
    """
    rows = frame[(frame["model"] == model) & (frame["benchmark"] == benchmark) & (frame["turn"] == TURN)]
    there = (rows["condition"] == full).any()
    told = rows["condition"] == full if there else rows["condition"].str.fullmatch(_PREFIX)
    banks = None
    if "bank_tokens" in rows.columns:
        banks = rows[told].drop_duplicates(["problem_id", "sample"])["bank_tokens"]
    unknown = Gap(
        "bank lengths are not recorded in these rows"
        if there or banks is None
        else f"{model}, {benchmark}: no rows of {full}, whose bank lengths count"
    )
    values = []
    for condition in unique(rows["condition"]):
        match = _PREFIX.fullmatch(condition)
        if match is None and condition != full:
            continue
        count: int | Gap
        if banks is None or banks.empty or banks.isna().any():
            count = unknown
        else:
            count = int((banks > int(match[1])).sum()) if match else 0
        unit = f"inputs of {0 if banks is None else len(banks)}"
        values.append(Value(model, benchmark, condition, f"T{TURN}", "", "truncated", count, unit))
    return values
