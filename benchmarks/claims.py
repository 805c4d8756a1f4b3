"""How often a run of the paper's size decides each claim, on simulated response rows.

    .venv/bin/python -m benchmarks.claims --runs 200 --write

Each simulated run has the paper's problems and samples. Its success rates are those of `stair/statistics/simulated_runs.py`:
once with the paper's scores, once with equal scores of all conditions of a model and benchmark. The table in docs/comparison.md
shows how often each verdict occurs. `--write` renews `stair/paper/claims/paper_effects.csv`.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from scipy import stats

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.paper.claims.detectable import Scores, detectable, expected_scores, has_rows
from stair.paper.claims.parts import Evidence, parts_of
from stair.paper.claims.statements import PAPER_EFFECTS, Claim, read_claims
from stair.paper.claims.verdicts import ClaimVerdict, judge
from stair.pipeline.plan import Planner
from stair.records.text_tables import csv_table
from stair.statistics.effects import Effect
from stair.statistics.intervals import LEVEL
from stair.statistics.named_random import named_generator
from stair.statistics.simulated_runs import Expected, simulated_responses
from tests.paper.paper_frame import Frame, paper_config
from tests.statistics.paper_rows import rows_of_evaluation, shared_t1_rows


def from_rows() -> list[Claim]:
    """The claims that response rows decide."""
    return [claim for claim in read_claims() if has_rows(claim)]


def paper_effects(config: Config, problems: Mapping[str, int]) -> str:
    """The joint effect of each claim on rows with the paper's counts, with an interval of simulated rows."""
    with tempfile.TemporaryDirectory() as folder:
        frame = Frame.of(Path(folder), rows_of_evaluation(), shared_t1_rows(), config)
        judged = {each.claim.number: each for each in frame.judged()}
    lines = []
    for number, planned in detectable(config, problems, from_rows()).items():
        each = judged[number]
        assert each.joint is not None
        estimate = each.joint.interval.estimate
        half = float(stats.t.ppf((1.0 + LEVEL) / 2.0, planned.smallest - 1)) * planned.error
        parts = [part.effect.interval.estimate for part in each.parts if isinstance(part.effect, Effect)]
        numbers = (f"{value:.4f}" for value in (estimate, estimate - half, estimate + half))
        lines.append([str(number), *numbers, each.unit, " ".join(f"{value:.4f}" for value in parts)])
    return csv_table(("claim", "effect", "low", "high", "unit", "parts"), lines)


def without_effects(scores: Scores) -> Scores:
    """The mean scores of each model and benchmark, for all its conditions and turns."""
    groups = defaultdict(list)
    for key, each in scores.items():
        groups[key.model, key.benchmark].append(each)
    return {key: Expected(*map(float, np.mean(groups[key.model, key.benchmark], axis=0))) for key in scores}


def rates(config: Config, problems: Mapping[str, int], runs: int, *, effects: bool) -> dict[int, Counter[ClaimVerdict]]:
    """By claim: how often each verdict occurs in simulated runs."""
    found = defaultdict[int, Counter[ClaimVerdict]](Counter)
    studies = [scores if effects else without_effects(scores) for scores in expected_scores(config)]
    for number in range(runs):
        generator = named_generator("simulated run", effects, number)
        evaluation, shared = (
            simulated_responses(scores, problems, config.evaluation.samples, generator) for scores in studies
        )
        for claim in from_rows():
            judged = judge(claim, parts_of(claim, Evidence(config, evaluation, shared, {})))
            found[claim.number][judged.verdict] += 1
        print(f"\r{number + 1} of {runs}", end="", flush=True)
    print()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200, help="simulated runs of each kind; 200 take minutes")
    parser.add_argument("--write", action="store_true", help="renew paper_effects.csv")
    arguments = parser.parse_args()
    config = paper_config()
    problems = Planner(config, RunPaths.of(config)).problems()
    if arguments.write:
        PAPER_EFFECTS.write_text(paper_effects(config, problems), encoding="utf-8")
    with_effects, without = (rates(config, problems, arguments.runs, effects=effects) for effects in (True, False))
    print("| claim | holds, paper's effects | does not hold | holds, no effects | does not hold |")
    print("|---|---:|---:|---:|---:|")
    for claim in from_rows():
        cells = [
            f"{counts[claim.number][verdict] / arguments.runs:.0%}"
            for counts in (with_effects, without)
            for verdict in (ClaimVerdict.HOLDS, ClaimVerdict.FAILS)
        ]
        print(f"| {claim.number} {claim.title} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
