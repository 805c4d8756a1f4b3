"""The runtime stage: measures what the work log lacks, then writes the table of repetitions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.records.progress import Progress
from stair.records.worklog import WorkLog, WorkLogWriter
from stair.stages.runtime.repetitions import Line, write_lines
from stair.stages.runtime.study import Study, open_study
from stair.stages.runtime.study_units import History, Unit


def run(config: Config, paths: RunPaths, model: str) -> dict[str, Any]:
    """Measures a model and writes runtime/MODEL.csv; returns facts for the manifest.

    Finished units are in the work log. A unit that does not fit the device's memory is a gap of this table, and
    the next run measures it again.

    Raises:
        ValueError: an input cannot be read, or a reading measurement controlled nothing.
    """
    folder, output = paths.work("runtime", model), paths.runtime(model)
    study = open_study(config, paths, model)
    units = study.units()
    keys = {unit: study.key(unit) for unit in units}
    log = WorkLog(folder)
    missing = [unit for unit in units if keys[unit] not in log]
    done = len(units) - len(missing)
    progress = Progress(paths.progress, f"runtime/{model}", len(units), "measurements", done)
    gaps: dict[Unit, dict[str, Any]] = {}
    if missing:
        with WorkLogWriter(folder, "measurements") as writer:
            for unit, record in _measured(study, missing, progress):
                if "gap" in record:
                    gaps[unit] = record
                else:
                    writer.append(keys[unit], record)
                progress.advance()
    log = WorkLog(folder)
    records = {unit: gaps.get(unit) or log.get(keys[unit]) for unit in units}
    write_lines(output, _lines(study, model, records))
    print(f"{model}: {study.gap or f'{len(units)} measurements on {study.device}'}")
    return {
        "engine": study.identity["engine"],
        "device": study.device,
        "shape": study.shape,
        "histories": [history.name for history in study.histories],
        "gap": study.gap,
    }


def _measured(study: Study, missing: list[Unit], progress: Progress) -> Iterator[tuple[Unit, dict[str, Any]]]:
    """Measure units in their order; a history's bank is constructed once for all its rows."""
    from stair.method import Segment
    from stair.stages.runtime.measure import Measurer

    measurer = Measurer(*study.load(), study.method)
    progress.begin()
    histories = {history.name: history for history in study.histories}
    banks: dict[History, Segment] = {}
    for unit in missing:
        history = histories[unit.history]
        segments = []
        if unit.segments:
            banks.clear()
            segments = measurer.random_segments(unit.segments)
        elif unit.variant:
            if history not in banks:
                banks.clear()
                banks[history] = measurer.construct(history)
            segments = [banks[history]]
        yield unit, {**measurer.measure(unit, history, segments), "memory": measurer.memory}


def _lines(study: Study, model: str, records: dict[Unit, dict[str, Any] | None]) -> Iterator[Line]:
    engine = study.identity["engine"]
    about = {
        "model": model,
        "benchmark": study.benchmark,
        "shape": study.shape,
        "engine": f"{engine['name']} {engine['version']}",
        "attention": engine["attention"],
        "dtype": engine["dtype"],
        "device": study.device,
    }
    if study.gap is not None:
        yield Line(**about, gap=study.gap)
    prompts = {history.name: len(history.prompt) for history in study.histories}
    for unit, record in records.items():
        assert record is not None, "every unit is measured by now"
        shared = {name: value for name, value in asdict(unit).items() if name != "segments"}
        shared |= about | {"prompt_tokens": prompts[unit.history], "memory": record["memory"]}
        if "gap" in record:
            yield Line(**shared, gap=record["gap"])
        for number, repetition in enumerate(record.get("repetitions", ()), start=1):
            yield Line(**shared, **repetition, repetition=number)
