"""Which of the paper's claims a configuration can decide, and how small an effect it detects."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from stair.config.model import Config
from stair.paper import paper_labels
from stair.paper.claims.statements import Claim, Compare, Pooled, Shared, Test, Transitions, Values, read_claims
from stair.paper.comparison.printed import printed_values
from stair.pipeline.planning.sizes import problems_of
from stair.pipeline.run import Run
from stair.statistics.metrics import LATER_TURNS, REFERENCE
from stair.statistics.paired import detectable_difference, planned_deviation


@dataclass(frozen=True)
class Detectable:
    """A part of a claim about response rows."""

    part: str
    problems: int
    detectable: float
    """Points of Avg@k that the run shows in four of five cases."""
    paper: float
    """The paper's effect."""
    samples: int
    """The fewest samples of each problem with which the run detects the paper's effect."""


@dataclass(frozen=True)
class Decidable:
    """A claim, beforehand."""

    claim: Claim
    lacking: str
    """The first thing that the configuration does not have; empty if it has all."""
    needs: tuple[str, ...]
    """The models and benchmarks of its tests: a run of these alone can test it."""
    parts: tuple[Detectable, ...]

    @property
    def too_small(self) -> int:
        """Parts whose effect in the paper is smaller than the run detects."""
        return sum(part.detectable > part.paper for part in self.parts)

    @property
    def samples(self) -> int:
        """The fewest samples of each problem with which the run detects every effect of `parts`."""
        return max(part.samples for part in self.parts)


def decidable(run: Run) -> list[Decidable]:
    """Every claim of claims.yaml, in its order."""
    scores = _printed_scores()
    found = []
    for claim in read_claims():
        lacking = next(filter(None, (_first_lacking(run, test) for test in claim.tests)), "")
        needs = tuple(dict.fromkeys(_scope(test) for test in claim.tests))
        parts = [part for test in claim.tests for part in _parts(run, test, scores)]
        found.append(Decidable(claim, lacking, needs, tuple(parts)))
    return found


def _parts(run: Run, test: Test, scores: dict[tuple[str, ...], tuple[float, float]]) -> Iterator[Detectable]:
    """Avg@k parts that the configuration has, with the paper's Avg@4 and Pass@4 as the expectation.

    Pooled effects, gains of gains, transitions, Pass@k and reported numbers have no size beforehand.
    """
    if isinstance(test, Compare) and not (test.models_less or test.benchmarks_less) and "average" in test.metrics:
        for model in test.models:
            if _no_rows(run.config, (model,), (test.benchmark,), (test.greater, test.less)):
                continue
            for span in test.spans:
                keys = [
                    ("turns", model, test.benchmark, side, "T1" if side == REFERENCE else span)
                    for side in (test.greater, test.less)
                ]
                turns = [len(LATER_TURNS) if key[-1] == "T2-T4" else 1 for key in keys]
                yield from _detectable(run, test.benchmark, f"{model}, {span}", keys, scores, turns)
    if isinstance(test, Shared) and not _first_lacking(run, test):
        for less in test.less:
            keys = [("shared", test.model, test.benchmark, side, "T2") for side in (test.greater, less)]
            yield from _detectable(run, test.benchmark, f"{test.model}, against {less}", keys, scores, (1, 1))


def _detectable(
    run: Run,
    benchmark: str,
    part: str,
    keys: Sequence[tuple[str, ...]],
    scores: dict[tuple[str, ...], tuple[float, float]],
    turns: Sequence[int],
) -> Iterator[Detectable]:
    if any(key not in scores for key in keys):
        return
    (greater, greater_pass), (less, less_pass) = (scores[key] for key in keys)
    problems, samples = problems_of(run, benchmark), run.config.evaluation.samples
    try:
        # The spread of rates over problems, from the paper's four samples; then each condition's turns and this run's samples.
        four = planned_deviation((greater + less) / 2.0, (greater_pass + less_pass) / 2.0, 4)
    except ValueError:
        return
    single = detectable_difference(four * math.sqrt(2.0 * sum(1.0 / count for count in turns)), problems)
    effect = greater - less
    yield Detectable(part, problems, single / math.sqrt(samples), effect, math.ceil((single / effect) ** 2))


def _printed_scores() -> dict[tuple[str, ...], tuple[float, float]]:
    """The paper's Avg@4 and Pass@4 by kind of table, model, benchmark, condition and turn, all as keys."""
    models, benchmarks = paper_labels.MODEL_KEYS, paper_labels.BENCHMARK_KEYS
    found: dict[tuple[str, ...], dict[str, float]] = {}
    for printed in printed_values():
        place = printed.place
        kind = "turns" if "turns" in place.artifact else "shared"
        shared = (paper_labels.SHARED_T1, paper_labels.BANK_PREFIXES)
        condition = paper_labels.CONDITION_KEYS.get(place.condition)
        known = place.model in models and place.benchmark in benchmarks and condition is not None
        if place.metric not in ("Avg@4", "Pass@4") or not known or (kind == "shared" and place.artifact not in shared):
            continue
        assert condition is not None
        key = (kind, models[place.model], benchmarks[place.benchmark], condition, place.turn)
        found.setdefault(key, {})[place.metric] = printed.value
    return {key: (two["Avg@4"], two["Pass@4"]) for key, two in found.items() if len(two) == 2}


def _places(test: Test) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The models, benchmarks and conditions of a test."""
    match test:
        case Compare():
            models, benchmarks = (*test.models, *test.models_less), (test.benchmark, *test.benchmarks_less)
            return models, benchmarks, (test.greater, test.less)
        case Pooled():
            return tuple(paper_labels.MODELS), paper_labels.POOLED_BENCHMARKS, (test.greater, test.less, REFERENCE)
        case Transitions():
            return (test.model,), (test.benchmark,), (REFERENCE, "native")
        case Shared():
            return (test.model,), (test.benchmark,), (test.greater, *test.less)
        case Values():
            return (test.model,), (), ()


def _scope(test: Test) -> str:
    """The models and the benchmark of a test, in words."""
    models, benchmarks, _ = _places(test)
    if isinstance(test, Values):
        return f"{_stage(test)} of {test.model}"
    return f"{', '.join(models)} on {', '.join(benchmarks)}"


def _first_lacking(run: Run, test: Test) -> str:
    """The first thing that a test needs and the configuration does not have; empty if it has all."""
    config = run.config
    match test:
        case Shared():
            study = run.shared_t1.config
            if not study.conditions:
                return "the run has no study with a shared T1 history"
            families = {key: item.family or key for key, item in study.conditions.items()}
            for side in (test.greater, *test.less):
                keys = [key for key, family in families.items() if side in (key, family)]
                if not any((test.model, test.benchmark) in study.evaluated(key) for key in keys):
                    return f"the study with a shared T1 history has no {side} of {test.model} on {test.benchmark}"
            return ""
        case Values():
            stage = _stage(test)
            section = config.runtime if stage == "runtime" else config.replay
            if section is None or test.model not in section.models:
                return f"no {stage} of {test.model}"
            numbers = {side for sides in test.sides() for side in sides if isinstance(side, str)}
            return next(filter(None, (_no_number(run, test.model, number) for number in sorted(numbers))), "")
        case _:
            return _no_rows(config, *_places(test))


def _no_rows(config: Config, models: Iterable[str], benchmarks: Iterable[str], conditions: Iterable[str]) -> str:
    """The first condition of a model on a benchmark that the configuration does not have; empty if it has all."""
    for model in models:
        for benchmark in benchmarks:
            for condition in conditions:
                if condition not in config.conditions:
                    return f"the run has no condition {condition}"
                if (model, benchmark) not in config.evaluated(condition):
                    return f"the run has no {condition} of {model} on {benchmark}"
    return ""


def _stage(test: Values) -> str:
    return "runtime" if "paired median" in str(test.greater) else "replay"


def _no_number(run: Run, model: str, number: str) -> str:
    """Why the replay's tables and figures will not report a number; empty if they will."""
    found = re.search(r"layer (\d+)", number)
    if found is None:
        return ""
    replay, layer = run.replay, int(found[1])
    if (analysis := replay.analysis) is None:
        return f"replay.analysis is null, so {number!r} is not computed"
    size = re.search(r"\bk=(\d+)", number)
    if size is not None and int(size[1]) not in analysis.neighborhoods:
        return f"replay.analysis.neighborhoods does not list {size[1]}"
    if number.startswith("incremental R2"):
        # Other reads than the assistant's are fitted at the first layer.
        layers = replay.layers if "earlier-assistant read" in number else replay.layers[:1]
        return "" if layer in layers else f"replay.layers does not list {layer} for {number!r}"
    everywhere = number.startswith(("attention mass", "median state displacement")) and "approximate" not in number
    if everywhere or (size is not None and int(size[1]) == analysis.neighborhoods[0] and "whitening" not in number):
        return "" if layer < run.shape(model).layers else f"{model} has no layer {layer}"
    return "" if layer == analysis.reported_layer else f"replay.analysis.reported_layer is not {layer}"
