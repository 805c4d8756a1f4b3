"""The study with a shared T1 history: controls averaged over seeds, differences from Native, bank prefixes."""

from collections.abc import Callable

import pandas as pd

from stair.core import SEEDED, ConditionName
from stair.statistics.grid import Gap, Responses, unique
from stair.statistics.metrics import at_turn, difference, mean, metric_names
from stair.statistics.values import Value

TURN = 2
NATIVE, FULL = "native", "stair"
"""The condition that differences are counted from, and the one that reads the full bank."""
NameOf = Callable[[str], ConditionName]
"""From a condition's key to its family, seed and prefix."""
SeedsOf = Callable[[str], int]
"""From a family of conditions to the number of its test-time seeds."""
PAPER_SEEDS = 3
"""Test-time seeds of each seeded control in the paper (appendix C.4), for rows without a configuration."""


def shared_t1_metrics(
    responses: Responses,
    model: str,
    benchmark: str,
    *,
    seeds_of: SeedsOf = lambda family: PAPER_SEEDS,
    name_of: NameOf = ConditionName.of_key,
) -> list[Value]:
    """Avg@k, its difference from Native in percentage points, and Pass@k at T2, for each family of conditions.

    Conditions with test-time seeds report the mean over seeds, and a gap unless all seeds of the family are there.
    Native and STAIR are gaps where they have no rows; other conditions without rows are left out.
    """
    conditions = unique([*responses.conditions(model, benchmark), NATIVE, FULL])
    conditions = [name for name in conditions if name != "t1"]
    names = {condition: name_of(condition) for condition in conditions}
    values = []
    for family in unique(name.averaged for name in names.values()):
        members = [condition for condition, name in names.items() if name.averaged == family]
        seeded = family in SEEDED or any(names[member].seed is not None for member in members)
        for name, metric in metric_names(responses.samples).items():
            score = mean([at_turn(metric, responses, model, benchmark, member, TURN) for member in members])
            if seeded and len(members) != seeds_of(family):
                score = missing_seeds(model, benchmark, family, len(members), seeds_of(family))
            values.append(Value(model, benchmark, family, f"T{TURN}", "", name, score, "%"))
            if name.startswith("Avg"):
                delta = difference(score, at_turn(metric, responses, model, benchmark, NATIVE, TURN))
                values.append(Value(model, benchmark, family, f"T{TURN}", "", f"{name} minus Native", delta, "pp"))
    return values


def missing_seeds(model: str, benchmark: str, family: str, present: int, seeds: int) -> Gap:
    """The gap of a family's average some of whose seeds are missing."""
    return Gap(f"{model}, {benchmark}, {family}: {present} of {seeds} test-time seeds are there")


def truncated_banks(
    frame: pd.DataFrame, model: str, benchmark: str, *, name_of: NameOf = ConditionName.of_key
) -> list[Value]:
    """How many banks are longer than each prefix condition's number of readable entries (0 for the full bank).

    All conditions share their banks: lengths come from STAIR's rows, without any from the prefixes'. Without the column
    `bank_tokens` in `frame`, a gap.
    """
    rows = frame[(frame["model"] == model) & (frame["benchmark"] == benchmark) & (frame["turn"] == TURN)]
    prefixes = {condition: name_of(condition).prefix for condition in unique(rows["condition"])}
    has_full = FULL in prefixes
    sources = [FULL] if has_full else [condition for condition, prefix in prefixes.items() if prefix is not None]
    banks = None
    if "bank_tokens" in rows.columns:
        of_sources = rows[rows["condition"].isin(sources)]
        banks = of_sources.drop_duplicates(["problem_id", "sample"])["bank_tokens"]
    unknown = Gap(
        "bank lengths are not recorded in these rows"
        if has_full or banks is None
        else f"{model}, {benchmark}: no rows of {FULL}, whose bank lengths count"
    )
    values = []
    for condition, prefix in prefixes.items():
        if prefix is None and condition != FULL:
            continue
        count: int | Gap
        if banks is None or banks.empty or banks.isna().any():
            count = unknown
        else:
            count = 0 if prefix is None else int((banks > prefix).sum())
        unit = f"inputs of {0 if banks is None else len(banks)}"
        values.append(Value(model, benchmark, condition, f"T{TURN}", "", "truncated", count, unit))
    return values


def median_bank(frame: pd.DataFrame, model: str, benchmark: str) -> float | Gap:
    """The median number of entries of the banks that STAIR reads at T2; `frame` as in `truncated_banks`."""
    rows = frame[(frame["model"] == model) & (frame["benchmark"] == benchmark) & (frame["turn"] == TURN)]
    banks = rows.loc[rows["condition"] == FULL, "bank_tokens"]
    if banks.empty or banks.isna().any():
        return Gap(f"{model}, {benchmark}: no rows of {FULL} with their bank lengths")
    return float(banks.median())
