"""What a configuration lacks for a test of a claim."""

from __future__ import annotations

import re
from collections.abc import Iterable

from stair.config.model import Config
from stair.paper import paper_labels
from stair.paper.claims.statements import Compare, Pooled, Shared, Test, Transitions, Values
from stair.pipeline.run import Run
from stair.statistics.metrics import REFERENCE


def scope(test: Test) -> str:
    """The models and the benchmark of a test, in words."""
    match test:
        case Compare():
            return _on((*test.models, *test.models_less), (test.benchmark, *test.benchmarks_less))
        case Pooled():
            return _on(paper_labels.MODELS, paper_labels.POOLED_BENCHMARKS)
        case Transitions() | Shared():
            return _on((test.model,), (test.benchmark,))
        case Values():
            return f"{_stage(test)} of {test.model}"


def first_lacking(run: Run, test: Test) -> str:
    """The first thing that a test needs and the configuration does not have; empty if it has all."""
    config = run.config
    match test:
        case Compare():
            places = (*test.models, *test.models_less), (test.benchmark, *test.benchmarks_less)
            return no_rows(config, *places, (test.greater, test.less))
        case Pooled():
            models, benchmarks = paper_labels.MODELS, paper_labels.POOLED_BENCHMARKS
            return no_rows(config, models, benchmarks, (test.greater, test.less, REFERENCE))
        case Transitions():
            return no_rows(config, (test.model,), (test.benchmark,), (REFERENCE, "native"))
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


def no_rows(
    config: Config,
    models: Iterable[str],
    benchmarks: Iterable[str],
    conditions: tuple[str, ...],
) -> str:
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


def _on(models: Iterable[str], benchmarks: Iterable[str]) -> str:
    return f"{', '.join(models)} on {', '.join(benchmarks)}"


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
