"""Shards that generate a condition's responses, and the seal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.core import SHARED_T1, condition_key, study_of
from stair.records.schemas import RESPONSES
from stair.records.shards import Shard
from stair.records.tables import write_table
from stair.sessions.invariants import condition_checks, cut_trajectories, kept, turns_of
from stair.sessions.positions import KEY as POSITIONS
from stair.sessions.positions import AuxiliaryPositions
from stair.sessions.run import report_missing, run_shard, sealed_rows
from stair.sessions.study import Study


def generate(config: Config, paths: RunPaths, model: str, benchmark: str, condition: str, shard: Shard) -> None:
    """Generates one shard of a condition: every `of`-th session."""
    study = Study(config, paths, model, benchmark, condition)
    study.check_lengths()
    sessions = shard.share(list(study.sessions))
    with ExitStack() as ended:
        run_shard(
            lambda load: study.trajectories(sessions, load=load),
            study.work,
            shard,
            lambda: study.load_engine(f"{shard.number}-of-{shard.of}", ended),
            (paths.progress, f"evaluation/{model}/{benchmark}/{condition}/{shard.number}"),
            logs_to_reuse(study),
            accept_missing=config.accept_missing,
        )


def logs_to_reuse(study: Study) -> list[Path]:
    """The folders of other runs' logs that can have responses of a condition; of each run, its own first."""
    model, benchmark, condition = study.place
    of_study, name = study_of(condition)
    # A seed contains the benchmark's key. Models and conditions may have other keys there. A repeat condition must not
    # reuse the responses of the condition that it repeats.
    every = f"evaluation/*/{benchmark}/{condition_key(of_study, '*')}/log"
    folders: list[Path] = []
    reused = study.paths.reused(study.config).values()
    if of_study == SHARED_T1:  # earlier versions kept these logs there
        folders += [paths.work("controls", model, benchmark, name, "log") for paths in (study.paths, *reused)]
    for paths in reused:
        own = paths.work("evaluation", *study.place, "log")
        others = [] if study.settings.repeats else paths.work().glob(every)
        folders += sorted({own, *others}, key=lambda folder: (folder != own, model not in folder.parts, folder))
    return folders


def seal(config: Config, paths: RunPaths, model: str, benchmark: str, condition: str) -> dict[str, Any]:
    """Writes a condition's responses from the logs, without a model; returns facts for the manifest."""
    study = Study(config, paths, model, benchmark, condition)
    output = paths.responses(model, benchmark, condition)
    positions = AuxiliaryPositions(study.backbone.architecture.context)
    facts: dict[str, Any] = {"model_revision": study.backbone.revision}
    write_table(output, RESPONSES, _checked(study, output, positions, facts))
    report_missing(output, facts)
    return facts | {POSITIONS: positions.as_dict() if config.reads_bank(condition) else None}


def _checked(
    study: Study, output: Path, positions: AuxiliaryPositions, facts: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Yields the condition's rows in the order of the table and adds them to `positions`; then runs its checks.

    `facts` is that of `sealed_rows`. Raises ValueError after the last row if a check fails.
    """
    turns: list[dict[str, Any]] = []
    reads = study.config.reads_bank(study.condition)
    trajectories = study.trajectories(sorted(study.sessions), load=False)
    accept = study.config.accept_missing
    for row in sealed_rows(trajectories, study.work, facts, logs_to_reuse(study), accept_missing=accept):
        turns.append(kept(row, study.backbone.renderer))
        positions.add(row)
        yield row
    scope = str(study.place)
    samples = study.config.evaluation.samples
    acts = study.config.acts(study.condition)
    cut = cut_trajectories(facts["missing"])
    frame, settings = turns_of(turns), study.settings
    for check in condition_checks(frame, settings, study.sessions, samples, scope, reads=reads, acts=acts, cut=cut):
        if not check.passed:
            raise ValueError(f"{output} is not written: {check.name}: {check.detail}")
