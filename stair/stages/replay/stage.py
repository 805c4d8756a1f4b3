"""The replay stage: the design, shards that measure its batches, the seal, and the analysis (appendix A.1)."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.replay import REPLAY_PARTS
from stair.models.model_folder import read_architecture
from stair.records.files import bytes_text
from stair.records.manifest import MEASURED, name_in_run
from stair.records.progress import Progress
from stair.records.rows import ReplayHistory, ScheduledTurn
from stair.records.schemas import EVALUATION_SESSIONS, REPLAY_CELLS, REPLAY_HISTORIES, REPLAY_PROBLEMS, RESPONSES
from stair.records.shards import SEAL_AGAIN, Shard, generating_facts, remove_markers, write_marker
from stair.records.tables import rows_as, write_table
from stair.stages.replay.design.crossed import Batch, crossed_design
from stair.stages.replay.design.design_tables import history_rows, problem_rows
from stair.stages.replay.design.histories import History
from stair.stages.replay.measurement.categories import SourceTokens
from stair.stages.replay.study import ReplayStudy, check_layers

_Work = tuple[list[SourceTokens], dict[Batch, str]]
"""A history's sources by depth, and batches with their keys."""


def design(config: Config, paths: RunPaths, model: str) -> None:
    """Chooses a model's histories and current problems, and prints the size of the measurements.

    Raises:
        ValueError: the saved responses cannot meet the design's numbers, which the message names, or the disk lacks the room.
    """
    study = ReplayStudy(config, paths, model)
    settings = study.settings
    sessions: dict[str, list[str]] = defaultdict(list)
    for turn in rows_as(paths.evaluation_sessions(settings.benchmark), EVALUATION_SESSIONS, ScheduledTurn):
        sessions[turn.session_id].append(turn.problem_id)
    try:
        crossed = crossed_design(sessions, _complete_paths(study, sessions), settings)
    except ValueError as error:
        raise ValueError(
            f"replay: the saved turns of '{settings.condition}' of {model} on {settings.benchmark} do not fill the design: "
            f"{error}; set smaller sizes under `replay`"
        ) from None
    batches = [batch for of_history in crossed.batches() for batch in of_history]
    replays = sum(
        len(batch.depths(settings.depth)) * len(batch.problems) for batch in batches if batch.history is not None
    )
    work = f"the replay of {model} ({replays:,} replays, {len(crossed.references())} references)"
    print(f"{work} takes {bytes_text(study.shapes.nbytes(batches))} in {study.files.folder}")
    study.require_space(batches, work)
    tokens = {
        history: tuple(len(source.ids) for source in study.prompts.sources(history))
        for group in crossed.groups
        for history in group.history_coverage.histories
    }
    turns = {}
    for problem in crossed.references():
        current = study.prompts.turn(problem)
        turns[problem] = len(current.ids), current.body[1] - current.body[0]
    write_table(paths.replay_problems(model), REPLAY_PROBLEMS, problem_rows(crossed, turns))
    write_table(paths.replay_histories(model), REPLAY_HISTORIES, history_rows(crossed, tokens))


class _SavedTurn(NamedTuple):
    session_id: str
    sample: int
    turn: int
    prompt_tokens: int
    response_tokens: int


def _complete_paths(study: ReplayStudy, sessions: dict[str, list[str]]) -> dict[str, list[int]]:
    """The paths of each session whose first turns are saved and leave room for any current problem in the model's context."""
    depth, settings = study.settings.depth, study.settings
    path = study.paths.responses(study.model, settings.benchmark, settings.condition)
    turns: dict[tuple[str, int], dict[int, _SavedTurn]] = defaultdict(dict)
    for row in rows_as(path, RESPONSES, _SavedTurn):
        turns[row.session_id, row.sample][row.turn] = row
    longest = max(len(study.prompts.turn(problem).ids) for problems in sessions.values() for problem in problems)
    complete: dict[str, list[int]] = defaultdict(list)
    for (session, sample), saved in turns.items():
        if not all(turn in saved for turn in range(1, depth + 1)):
            continue
        last = saved[depth]
        # The history is about as long as the last prompt and answer: markers and another encoding of the answer add few
        # tokens. So only long histories are rendered and counted.
        room = study.backbone.architecture.context - longest
        if 2 * (last.prompt_tokens + last.response_tokens) > room:
            history = History(session, sample, tuple(sessions[session][:depth]))
            if len(study.prompts.sources(history)[-1].ids) > room:
                continue
        complete[session].append(sample)
    return complete


def measure(config: Config, paths: RunPaths, model: str, shard: int, of: int) -> None:
    """Measures the batches of one shard that are not kept yet. A shard has whole histories, each with all its batches.

    Raises:
        ValueError: the disk lacks the room, a history does not fit the device's memory, or a measurement is not finite.
    """
    start = time.monotonic()
    study = ReplayStudy(config, paths, model)
    share = Shard(shard, of)
    mine = share.share(list(study.design.batches()))
    total = sum(map(len, mine))
    open_work: list[_Work] = []
    for batches in mine:
        sources, keys = study.work(batches)
        if missing := {batch: key for batch, key in keys.items() if not study.files.has(batch.name, key)}:
            open_work.append((sources, missing))
    missing_batches = [batch for _, missing in open_work for batch in missing]
    job_name, done = f"replay/{model}/{shard}", total - len(missing_batches)
    progress = Progress(paths.progress, job_name, total, "batches", done)
    if open_work:
        study.require_space(missing_batches, progress.job)
        _measure(study, open_work, progress)
    write_marker(study.work_folder, share, start=start, generated=len(missing_batches), batches=total)


def _measure(study: ReplayStudy, open_work: list[_Work], progress: Progress) -> None:
    import torch

    from stair.stages.replay.measure import replayed

    network = study.backbone.network(study.config.transformers.device)
    progress.begin()
    for sources, keys in open_work:
        try:
            for batch, tensors in replayed(study, network, sources, keys):
                study.files.keep(batch.name, keys[batch], tensors)
                progress.advance()
        except torch.OutOfMemoryError as error:
            raise ValueError(
                f"{progress.job}: a history of {len(sources[-1].ids)} tokens with {study.settings.batch_problems} problems of up "
                f"to {study.columns} tokens does not fit the device's memory ({(str(error).splitlines() or [''])[0]}); set a "
                "smaller replay.batch_problems, which designs and measures again, or use a larger device"
            ) from None


def seal(config: Config, paths: RunPaths, model: str) -> dict[str, Any]:
    """Writes the index of a model's measurements, each file compared with its digest, without a model; returns manifest facts.

    Raises ValueError if batches are missing or damaged. The shards' markers and an earlier index are then removed, so that
    the workflow's next start measures these batches, and no others.
    """
    study = ReplayStudy(config, paths, model)
    output = paths.replay_cells(model)
    missing: list[str] = []
    measured: dict[str, str] = {}
    count = write_table(output, REPLAY_CELLS, _cells(study, missing, measured))
    size = sum(study.files.path(batch.name).stat().st_size for of in study.design.batches() for batch in of)
    print(f"{model}: {count:,} cells in {bytes_text(size)} of {study.files.folder}")
    return {
        "model_revision": study.backbone.revision,
        "engine": study.backbone.engine.as_key(),
        "cells": count,
        "states_bytes": size,
        MEASURED: measured,
        **generating_facts(study.work_folder),
    }


def _cells(study: ReplayStudy, missing: list[str], measured: dict[str, str]) -> Iterator[dict[str, Any]]:
    """The rows of the index, in the order of the design. Adds the names of missing batches, and the digests of measured files."""
    histories = list(study.design.batches())
    progress = Progress(study.paths.progress, f"replay/{study.model}/seal", len(histories), "histories")
    for batches in histories:
        sources, keys = study.work(batches)
        for batch, key in keys.items():
            try:
                digest = study.files.verified_digest(batch.name, key)
            except ValueError as error:
                print(error)
                digest = None
            if digest is None:
                missing.append(batch.name)
                continue
            path = study.files.path(batch.name).relative_to(study.files.folder)
            measured[name_in_run(study.files.path(batch.name), study.paths.folder)] = digest
            wide = study.design.groups[batch.group - 1].history_coverage
            for depth, source in zip(batch.depths(study.settings.depth), sources, strict=True):
                for row, problem in enumerate(batch.problems):
                    yield dict(
                        group=batch.group,
                        history=None if batch.history is None else batch.history.name,
                        depth=depth,
                        problem_id=problem,
                        history_coverage=problem in wide.problems,
                        problem_coverage=batch.in_problem_coverage,
                        prefix_tokens=len(source.ids),
                        file=path.as_posix(),
                        row=row,
                        sha256=digest,
                    )
        progress.advance()
    if missing:
        remove_markers(study.work_folder)
        # An index of lost files would keep the workflow from measuring them.
        study.paths.replay_cells(study.model).unlink(missing_ok=True)
        raise ValueError(
            f"{study.files.folder}: {len(missing)} batches are missing, {missing[0]} for example: they were lost, damaged, or "
            f"measured under other settings; {SEAL_AGAIN}; it measures these batches, and no others"
        )


def analyze(config: Config, paths: RunPaths, model: str, part: str) -> None:
    """Computes one `part` of a model's statistics: `replay/MODEL/PART.parquet`, PART `attention`, `geometry`, `read_prediction`.

    Raises:
        ValueError: the model lacks the reported layer, or the replay is not measured or damaged.
    """
    from stair.stages.replay.analysis import attention_masses, geometry, read_prediction
    from stair.stages.replay.analysis.crossing import Crossing
    from stair.stages.replay.analysis.statistics_table import write_statistics
    from stair.stages.replay.states import ReplayStates

    assert config.replay is not None and config.replay.analysis is not None, "the graph has no analysis then"
    architecture = read_architecture(paths.model_folder(config, model))
    check_layers(architecture, config.replay)
    states = ReplayStates(paths.replay_cells(model), paths.replay_states(model))
    histories = list(rows_as(paths.replay_histories(model), REPLAY_HISTORIES, ReplayHistory))
    crossings = [Crossing.of(number, states, histories) for number in (1, 2)]
    modules = dict(zip(REPLAY_PARTS, (attention_masses, geometry, read_prediction), strict=True))
    output = paths.replay_statistics(model, part)
    count = write_statistics(output, states.depth, modules[part].of_replay(crossings, architecture, config.replay))
    print(f"{model}: {count:,} statistics in {output}")
