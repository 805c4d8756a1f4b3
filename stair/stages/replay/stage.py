"""The replay stage: the design, shards that measure its histories, the seal, and the analysis (appendix A.1)."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.replay import REPLAY_PARTS
from stair.models.model_folder import read_architecture
from stair.records.files import bytes_text, write_text
from stair.records.manifest import MEASURED, name_in_run
from stair.records.progress import Progress
from stair.records.rows import ReplayHistory, ScheduledTurn
from stair.records.schemas import EVALUATION_SESSIONS, REPLAY_HISTORIES, REPLAY_PROBLEMS, RESPONSES
from stair.records.shards import SEAL_AGAIN, Shard, generating_facts, recorded_attempt, remove_markers, write_marker
from stair.records.tables import rows_as, write_table
from stair.stages.replay.design.crossed import HistoryWork, crossed_design
from stair.stages.replay.design.design_tables import history_rows, problem_rows, read_design
from stair.stages.replay.design.histories import History
from stair.stages.replay.measurement.categories import SourceTokens
from stair.stages.replay.study import ReplayStudy, check_layers


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
    what = f"the replay of {model} ({settings.replays:,} replays, {settings.references} references)"
    print(f"{what} takes {bytes_text(study.nbytes)} in {study.files.folder}")
    work = list(crossed.work())
    study.require_space(work, len(work), what)
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


class _PathTurn(NamedTuple):
    session_id: str
    sample: int
    turn: int
    prompt_tokens: int
    response_tokens: int


def _complete_paths(study: ReplayStudy, sessions: dict[str, list[str]]) -> dict[str, list[int]]:
    """The paths of each session whose first turns are saved and leave room for any current problem in the model's context."""
    depth, settings = study.settings.depth, study.settings
    path = study.paths.responses(study.model, settings.benchmark, settings.condition)
    turns: dict[tuple[str, int], dict[int, _PathTurn]] = defaultdict(dict)
    for row in rows_as(path, RESPONSES, _PathTurn):
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


def measure(config: Config, paths: RunPaths, model: str, shard: Shard) -> None:
    """Measures the histories of one shard that are not kept yet.

    Raises:
        ValueError: the disk lacks the room, a history does not fit the device's memory, or a measurement is not finite.
    """
    study = ReplayStudy(config, paths, model)
    every = list(study.design.work())
    mine = shard.share(every)
    missing: list[tuple[HistoryWork, list[SourceTokens], str]] = []
    for work in mine:
        sources = study.sources(work)
        if not study.files.has(work.name, key := study.key(work, sources)):
            missing.append((work, sources, key))
    progress = Progress(
        paths.progress, f"replay/{model}/{shard.number}", len(mine), "histories", len(mine) - len(missing)
    )
    if missing:
        study.require_space([work for work, _, _ in missing], len(every), progress.job)
        done = progress.done
        with recorded_attempt(study.work_folder, shard, lambda: progress.done - done):
            _measure(study, missing, progress)
    write_marker(study.work_folder, shard)


def _measure(
    study: ReplayStudy, missing: list[tuple[HistoryWork, list[SourceTokens], str]], progress: Progress
) -> None:
    import torch

    from stair.stages.replay.measure import replayed

    network = study.backbone.network(study.config.transformers.device)
    progress.begin()
    for work, sources, key in missing:
        try:
            study.files.keep(work.name, key, replayed(study, network, work, sources))
        except torch.OutOfMemoryError as error:
            raise ValueError(
                f"{progress.job}: a history of {len(sources[-1].ids)} tokens with {study.settings.batch_problems} problems of up "
                f"to {study.columns} tokens does not fit the device's memory ({(str(error).splitlines() or [''])[0]}); set a "
                "smaller replay.batch_problems, which designs and measures again, or use a larger device"
            ) from None
        progress.advance()


def seal(config: Config, paths: RunPaths, model: str) -> dict[str, Any]:
    """Writes the checksums of a model's measurements, without a model; returns manifest facts.

    Each file's tensors are compared with their own digest first.

    Raises ValueError if histories are missing or damaged. The shards' markers and earlier checksums are then removed, so that
    the workflow's next start measures these histories, and no others.
    """
    study = ReplayStudy(config, paths, model)
    digests: dict[str, str] = {}
    missing: list[str] = []
    every = list(study.design.work())
    progress = Progress(paths.progress, f"replay/{model}/seal", len(every), "histories")
    for work in every:
        try:
            digest = study.files.verified_digest(work.name, study.key(work, study.sources(work)))
        except ValueError as error:
            print(error)
            digest = None
        if digest is None:
            missing.append(work.name)
        else:
            digests[work.name] = digest
        progress.advance()
    output = paths.replay_checksums(model)
    if missing:
        remove_markers(study.work_folder)
        # Checksums of lost files would keep the workflow from measuring them.
        output.unlink(missing_ok=True)
        raise ValueError(
            f"{study.files.folder}: {len(missing)} histories are missing, {missing[0]} for example: they were lost, damaged, or "
            f"measured under other settings; {SEAL_AGAIN}; it measures these histories, and no others"
        )
    files = {study.files.path(name): digest for name, digest in digests.items()}
    write_text(output, "".join(f"{digest}  {path.relative_to(output.parent)}\n" for path, digest in files.items()))
    size = sum(path.stat().st_size for path in files)
    print(f"{model}: {len(files):,} histories in {bytes_text(size)} of {study.files.folder}")
    return {
        "model_revision": study.backbone.revision,
        "engine": study.backbone.engine.as_key(),
        "states_bytes": size,
        MEASURED: {name_in_run(path, paths.folder): digest for path, digest in files.items()},
        **generating_facts(study.work_folder),
    }


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
    crossed = read_design(paths.replay_histories(model), paths.replay_problems(model))
    states = ReplayStates(paths.replay_checksums(model))
    histories = list(rows_as(paths.replay_histories(model), REPLAY_HISTORIES, ReplayHistory))
    crossings = [Crossing.of(group, states, histories) for group in crossed.groups]
    modules = dict(zip(REPLAY_PARTS, (attention_masses, geometry, read_prediction), strict=True))
    output = paths.replay_statistics(model, part)
    count = write_statistics(output, crossed.depth, modules[part].of_replay(crossings, architecture, config.replay))
    print(f"{model}: {count:,} statistics in {output}")
