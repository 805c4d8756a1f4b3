"""The replay on a run's folder: its prompts and numbers, what it refuses, and being killed (appendix A.1)."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections import defaultdict
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

from stair.config.paths import RunPaths
from stair.config.resolve import load_run
from stair.core import user_message
from stair.records import tensor_files
from stair.records.files import remove_unfinished
from stair.records.keys import ids_digest
from stair.records.progress import Progress, progress_file
from stair.records.schemas import BENCHMARK, EVALUATION_SESSIONS, REPLAY_HISTORIES, RESPONSES
from stair.records.tables import read_table, write_table
from stair.sessions.renderer import Exchange, Renderer
from stair.stages.replay.design.crossed import HistoryWork
from stair.stages.replay.design.histories import History
from stair.stages.replay.measure import replayed
from stair.stages.replay.measurement.categories import label
from stair.stages.replay.measurement.naive import measure_whole
from stair.stages.replay.measurement.probe import MeasuredStates
from stair.stages.replay.stage import _complete_paths
from stair.stages.replay.states import ReplayStates
from stair.stages.replay.study import ReplayStudy
from tests.conftest import random_model
from tests.faults.harness import Kill, forked
from tests.replay.small_run import MODEL, contents, make_run, reconfigure, replay, run
from tests.sealed import reseal

PLACE = (MODEL, "math500", "native")
MEASURED = 1
"""The layer with reads; layer 3, the other full-attention layer of the hybrid model, is the last."""


@pytest.fixture(scope="module")
def finished(
    small_tokenizer: Callable[..., PreTrainedTokenizerFast], tmp_path_factory: pytest.TempPathFactory
) -> RunPaths:
    """A finished replay of the hybrid architecture in thinking mode; nobody may change it."""
    model = random_model("qwen3_5", max_position_embeddings=2048)
    paths = make_run(tmp_path_factory.mktemp("replay"), model, small_tokenizer(True))
    replay(paths, "--design")
    for number in range(2):
        replay(paths, "--shard", str(number), "--of", "2")
    replay(paths, "--seal")
    return paths


@pytest.fixture
def copied(finished: RunPaths, tmp_path: Path) -> RunPaths:
    """The same run to be changed."""
    shutil.copytree(finished.folder, tmp_path / "run")
    return RunPaths(tmp_path / "run")


def study_of(paths: RunPaths) -> ReplayStudy:
    return ReplayStudy(load_run(paths.folder), paths, MODEL)


def forget_states(paths: RunPaths) -> None:
    """Removes all measurements and what says that there were any; the design stays."""
    shutil.rmtree(paths.replay_states(MODEL))
    shutil.rmtree(paths.work("replay", MODEL))
    paths.replay_checksums(MODEL).unlink()


def written_at(paths: RunPaths) -> dict[Path, int]:
    """When each history was written."""
    return {path: path.stat().st_mtime_ns for path in paths.replay_states(MODEL).rglob("*.safetensors")}


# ---------------------------------------------------------------- prompts


def test_every_prefix_with_the_sessions_next_problem_is_that_rows_prompt(finished: RunPaths) -> None:
    """So saved answers are rendered as the evaluation renders them, and lengths count the whole prefix."""
    study = study_of(finished)
    lengths = {
        row["history"]: row["prefix_tokens"] for row in read_table(finished.replay_histories(MODEL), REPLAY_HISTORIES)
    }
    assert len(lengths) == 8
    problems: dict[str, list[str]] = defaultdict(list)
    for row in read_table(finished.evaluation_sessions("math500"), EVALUATION_SESSIONS):
        problems[row["session_id"]].append(row["problem_id"])
    compared = 0
    for row in read_table(finished.responses(*PLACE), RESPONSES):
        if row["turn"] == 1:
            continue
        depth = row["turn"] - 1
        history = History(row["session_id"], row["sample"], tuple(problems[row["session_id"]][:depth]))
        prefix = study.prompts.sources(history)[-1]
        prompt = (*prefix.ids, *study.prompts.turn(row["problem_id"]).ids)
        assert len(prompt) == row["prompt_tokens"]
        assert ids_digest(prompt) == row["prompt_ids_sha256"]
        if history.name in lengths:
            assert len(prefix.ids) == lengths[history.name][depth - 1]
        compared += 1
    assert compared == 8 * 4 * 3  # sessions, paths, depths


def test_a_saved_prompt_that_the_prefix_does_not_begin_is_refused(copied: RunPaths) -> None:
    path = copied.responses(*PLACE)
    rows = list(read_table(path, RESPONSES))
    changed = [row | {"prompt_ids_sha256": "0" * 64} if row["turn"] == 3 else row for row in rows]
    write_table(path, RESPONSES, changed)
    reseal(path)
    with pytest.raises(ValueError, match=r"first 2 turns of s-\w+-\d with its problem .* are not the prompt of turn 3"):
        replay(copied, "--design")


def user_of(study: ReplayStudy, problem: str) -> str:
    """A problem's message, from the benchmark's table."""
    config = study.config
    rows = read_table(study.paths.benchmark("math500"), BENCHMARK)
    text = next(row["problem"] for row in rows if row["problem_id"] == problem)
    return user_message(config.prompts[config.benchmarks["math500"].prompt], text)


# ---------------------------------------------------------------- numbers


def test_the_files_have_each_replay_once_with_its_tensors(finished: RunPaths) -> None:
    study = study_of(finished)
    full = len(study.backbone.architecture.full_attention_layers)
    names = {
        path.relative_to(finished.replay_states(MODEL)).with_suffix("").as_posix() for path in written_at(finished)
    }
    assert names == {work.name for work in study.design.work()}
    replays = 0
    for work in study.design.work():
        tensors = load_file(study.files.path(work.name))
        group, count, expected = study.design.groups[work.group - 1], len(work.problems), {}
        inner = work.history is None or work.history in group.problem_coverage.histories
        assert work.problems == (group.problem_coverage if inner else group.history_coverage).problems
        for depth in (0,) if work.history is None else (1, 2, 3):
            expected |= {f"{depth}/block_outputs": (4, count, 32), f"{depth}/masses": (full, count, 4)}
            if depth == 0:
                expected["0/embedding"] = (count, 32)
            if inner and depth in (0, 3):
                expected |= {f"{depth}/reads": (1, count, 4, 32), f"{depth}/next_mlp": (1, count, 32)}
            masses = tensors[f"{depth}/masses"]
            assert np.abs(masses.sum(-1) - 1).max() < 1e-5
            if depth == 0:  # no system prompt here: the current turn is all
                assert np.abs(masses[..., 3] - 1).max() < 1e-5
            else:
                replays += count
        assert {name: part.shape for name, part in tensors.items()} == expected
        assert {part.dtype for part in tensors.values()} == {np.dtype(np.float32)}
    assert replays == 72


def test_the_size_that_is_printed_beforehand_is_that_of_the_tensors(
    copied: RunPaths, capsys: pytest.CaptureFixture[str]
) -> None:
    study = study_of(copied)
    stored = sum(
        part.nbytes for path in copied.replay_states(MODEL).rglob("*.safetensors") for part in load_file(path).values()
    )
    assert study.nbytes == stored
    capsys.readouterr()
    replay(copied, "--design")
    printed = capsys.readouterr().out
    assert f"(72 replays, 8 references) takes {tensor_files.bytes_text(stored)} in " in printed


def test_random_cells_equal_a_stock_eager_model_over_the_whole_prompt(finished: RunPaths) -> None:
    study = study_of(finished)
    eager = AutoModelForCausalLM.from_pretrained(
        study.backbone.folder, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    every = [
        (work, depth, place)
        for work in study.design.work()
        for depth, place in product(work.depths(3), range(len(work.problems)))
    ]
    chosen = random.Random(0).sample([cell for cell in every if cell[1]], 6)
    chosen += random.Random(0).sample([cell for cell in every if cell[1] == 3 and cell[0].in_problem_coverage], 4)
    chosen += [cell for cell in every if cell[1] == 0][:2]
    for work, depth, place in chosen:
        turns = saved_turns(study, work, depth)
        prompt = label(study.backbone.renderer, turns, user_of(study, work.problems[place]))
        expected = measure_whole(eager, prompt, (MEASURED,))
        tensors = load_file(study.files.path(work.name))
        compared = set()
        for name in (field.name for field in fields(MeasuredStates)):
            stored = tensors.get(f"{depth}/{name}")
            if stored is None:
                continue
            other = getattr(expected, name)[0].numpy()
            own = stored[place] if name == "embedding" else stored[:, place]
            assert own.shape == other.shape, name
            # Categories without a token have a read of zero, and relative distances are of each layer's whole.
            difference = np.abs(own - other).max() if name == "masses" else distance(own, other)
            assert difference < 1e-5, (name, work.name, depth)
            compared.add(name)
        assert {"block_outputs", "masses"} <= compared
        if work.has_reads(depth, 3):
            assert {"reads", "next_mlp"} <= compared


def saved_turns(study: ReplayStudy, work: HistoryWork, depth: int) -> list[Exchange]:
    """The turns of a cell's history, from the rows of the evaluation."""
    renderer: Renderer = study.backbone.renderer
    saved = {
        saved["turn"]: saved
        for saved in read_table(study.paths.responses(*PLACE), RESPONSES)
        if work.history is not None and f"{saved['session_id']}-{saved['sample']}" == work.history.name
    }
    return [
        Exchange(user_of(study, saved[turn]["problem_id"]), renderer.visible_answer(saved[turn]["response_ids"]))
        for turn in range(1, depth + 1)
    ]


def distance(one: np.ndarray, other: np.ndarray) -> float:
    """The largest relative distance over layers."""
    flat = [part.reshape(part.shape[0], -1) if part.ndim > 1 else part[None] for part in (one, other)]
    return float((np.linalg.norm(flat[0] - flat[1], axis=1) / np.linalg.norm(flat[1], axis=1)).max())


def test_states_do_not_depend_on_the_batches(finished: RunPaths, copied: RunPaths) -> None:
    reconfigure(copied, batch_problems=3)
    replay(copied, "--design")
    replay(copied, "--shard", "0", "--of", "1")
    replay(copied, "--seal")
    for work in study_of(finished).design.work():
        one, other = (load_file(study_of(paths).files.path(work.name)) for paths in (finished, copied))
        assert one.keys() == other.keys()
        for name, own in one.items():
            assert np.linalg.norm(own - other[name]) / np.linalg.norm(other[name]) < 1e-5, (work.name, name)


def test_a_reader_gives_a_coverages_cells_in_the_order_of_the_design(finished: RunPaths) -> None:
    states, study = ReplayStates(finished.replay_checksums(MODEL)), study_of(finished)
    for group in study.design.groups:
        alone = load_file(study.files.path(f"group-{group.number}/empty"))
        for coverage in (group.history_coverage, group.problem_coverage):
            count = len(coverage.problems)
            outputs = states.cells(group.number, coverage, 2, "block_outputs", 1)
            references = states.references(group.number, coverage, "embedding", None)
            assert np.array_equal(references, alone["0/embedding"][:count])
            for place, history in enumerate(coverage.histories):
                file = load_file(study.files.path(f"group-{group.number}/{history.name}"))
                assert np.array_equal(outputs[:, place], file["2/block_outputs"][1, :count])


# ---------------------------------------------------------------- interruption and damage


def safetensor_points(points: list[str]) -> list[int]:
    """The write points that put a history's file into its place."""
    return [number for number, point in enumerate(points) if "replace" in point and ".safetensors" in point]


def test_killed_and_shared_out_anew_gives_the_same_bytes_and_measures_nothing_twice(
    finished: RunPaths, copied: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after the fifth history's file."""
    kept = 5
    monkeypatch.setattr(Progress, "FILE_SECONDS", 0.0)  # or a fast machine is killed before its second report
    forget_states(copied)
    shutil.copytree(copied.folder, whole := copied.folder.parent / "whole")
    shard = ("--shard", "0", "--of", "1")
    replaces = safetensor_points(forked(lambda folder: replay(RunPaths(folder), *shard), whole).points)
    assert len(replaces) == 10
    outcome = forked(lambda folder: replay(RunPaths(folder), *shard), copied.folder, Kill(replaces[kept]))
    assert outcome.killed
    before = written_at(copied)
    assert len(before) == kept  # the open history is lost, and no other
    assert json.loads(progress_file(copied.progress, f"replay/{MODEL}/0").read_text())["done"] == kept
    (unfinished,) = copied.replay_states(MODEL).rglob(".*.partial")
    remove_unfinished(copied.folder)  # as a driver does at its start
    for number in range(3):
        replay(copied, "--shard", str(number), "--of", "3")
    assert not unfinished.exists()
    after = written_at(copied)
    assert len(after) == 10
    assert {path: after[path] for path in before} == before
    replay(copied, "--seal")
    assert contents(copied) == contents(finished)


def test_a_damaged_file_is_named_renamed_and_measured_again_alone(
    finished: RunPaths, copied: RunPaths, capsys: pytest.CaptureFixture[str]
) -> None:
    before = written_at(copied)
    damaged, lost = sorted(before)[2], sorted(before)[6]
    content = bytearray(damaged.read_bytes())
    content[-2] ^= 1
    damaged.write_bytes(content)
    lost.unlink()
    with pytest.raises(ValueError, match="2 histories are missing, group-1/") as caught:
        replay(copied, "--seal")
    assert "\n" not in str(caught.value)
    assert f"the tensors of {damaged} are not those that were written; it was renamed to" in capsys.readouterr().out
    assert damaged.with_name(f"{damaged.name}.damaged").is_file()
    # The checksums and the markers are gone, so the workflow runs these jobs again.
    assert not copied.replay_checksums(MODEL).exists()
    assert not copied.shard("0", "2", "replay", MODEL).exists()
    replay(copied, "--shard", "0", "--of", "1")
    after = written_at(copied)
    assert {path for path in after if after[path] != before[path]} == {damaged, lost}
    replay(copied, "--seal")
    assert contents(copied) == contents(finished)


def test_a_reader_refuses_another_file_than_the_sealed_one(copied: RunPaths) -> None:
    checksums = copied.replay_checksums(MODEL)
    group = study_of(copied).design.groups[1]
    path = study_of(copied).files.path(f"group-2/{group.history_coverage.histories[0].name}")
    whole = path.read_bytes()
    flipped = whole[:-20] + bytes([whole[-20] ^ 1]) + whole[-19:]
    for content in (whole[:-20], flipped, None):
        path.unlink()
        if content is not None:
            path.write_bytes(content)
        fault = r"cannot be read \(No such" if content is None else "does not match its sealed checksum; "
        with pytest.raises(ValueError, match=rf"{path} {fault}.*delete {checksums}; "):
            ReplayStates(checksums).cells(2, group.history_coverage, 1, "masses", 0)


def test_a_reader_reads_no_whole_file_that_is_older_than_the_checksums(
    copied: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The seal has compared all of them; the files of a model have gigabytes."""
    monkeypatch.setattr("stair.stages.replay.states.file_digest", lambda path: pytest.fail(f"{path} was read"))
    checksums = copied.replay_checksums(MODEL)

    coverage = study_of(copied).design.groups[1].history_coverage

    def read() -> np.ndarray:
        return ReplayStates(checksums).cells(2, coverage, 1, "masses", 0)

    assert np.abs(read().sum(-1) - 1).max() < 1e-5
    for path in written_at(copied):  # as a disk loses the end of a file, which keeps its time
        before = path.stat()
        os.truncate(path, before.st_size // 2)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(ValueError, match=rf"\.safetensors is damaged \(.*delete {checksums}; "):
        read()


def test_a_number_that_is_not_finite_is_refused(finished: RunPaths) -> None:
    study = study_of(finished)
    references = next(study.design.work())
    model = study.backbone.network("cpu")
    weight = model.base_model.layers[2].mlp.down_proj.weight
    weight.data[0, 0] = torch.nan
    with pytest.raises(ValueError, match="group-1/empty: 0/block_outputs contains a number that is not finite"):
        replayed(study, model, references, study.sources(references))


# ---------------------------------------------------------------- refusals


def test_a_design_that_the_data_cannot_fill_is_refused_with_the_missing_numbers(copied: RunPaths) -> None:
    reconfigure(copied, problem_coverage={"current_problems": 5, "histories": 2}, analysis=None)
    with pytest.raises(ValueError, match=r"needs 5 current problems in each half .*there are 4; set smaller") as caught:
        replay(copied, "--design")
    assert f"the saved turns of 'native' of {MODEL} on math500 do not fill the design" in str(caught.value)


def test_paths_without_all_turns_are_no_histories(copied: RunPaths) -> None:
    path = copied.responses(*PLACE)
    rows = list(read_table(path, RESPONSES))
    third = [row for row in rows if row["turn"] == 3][:5]
    write_table(path, RESPONSES, [row for row in rows if row["turn"] < 3 or row in third])
    reseal(path)
    with pytest.raises(
        ValueError, match=r"none of 2000 draws has the design's numbers; in the last one, group \d has \d+"
    ):
        replay(copied, "--design")


def test_histories_fit_the_model_s_context_with_the_longest_current_turn(finished: RunPaths) -> None:
    study = study_of(finished)
    sessions: dict[str, list[str]] = defaultdict(list)
    for row in read_table(finished.evaluation_sessions("math500"), EVALUATION_SESSIONS):
        sessions[row["session_id"]].append(row["problem_id"])
    needed = {
        (session, sample): len(study.prompts.sources(History(session, sample, tuple(problems[:3])))[-1].ids)
        + max(len(study.prompts.turn(problem).ids) for turns in sessions.values() for problem in turns)
        for session, problems in sessions.items()
        for sample in range(4)
    }
    backbone = study.backbone
    for context in {tokens + more for tokens in needed.values() for more in (-1, 0)}:
        study.backbone = replace(backbone, architecture=replace(backbone.architecture, context=context))
        complete = {
            (session, sample) for session, paths in _complete_paths(study, sessions).items() for sample in paths
        }
        assert complete == {path for path, tokens in needed.items() if tokens <= context}


def test_a_disk_that_is_too_small_is_refused_beforehand(
    copied: RunPaths, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    free = (1 << 28) + 1000  # bytes; the first part must stay free
    usage = shutil.disk_usage(copied.folder)
    monkeypatch.setattr(tensor_files.shutil, "disk_usage", lambda _: usage._replace(free=free))
    # Files that are there need no further room.
    replay(copied, "--design")
    replay(copied, "--shard", "0", "--of", "1")
    forget_states(copied)
    for words in (("--design",), ("--shard", "0", "--of", "1")):
        with pytest.raises(ValueError, match=r" \d+\.\d KB in .*/states, where 2\d\d\.\d MB are free .* make room"):
            replay(copied, *words)
    assert not copied.replay_states(MODEL).exists()


def test_a_layer_without_reads_is_refused_with_its_key(finished: RunPaths, copied: RunPaths) -> None:
    full = study_of(finished).backbone.architecture.full_attention_layers
    assert full == (1, 3)
    for layer, reason in ((2, "it is not a full-attention layer"), (3, "it is the last")):
        reconfigure(copied, layers=[layer])
        for words in (("--design",), ("--shard", "0", "--of", "1"), ("--seal",)):
            with pytest.raises(ValueError, match=f"replay.layers: layer {layer} cannot be measured: {reason}"):
                replay(copied, *words)


def test_a_reported_layer_that_the_model_lacks_is_refused_before_anything_is_measured(copied: RunPaths) -> None:
    for layer in (4, 2):  # beyond the last, and without full attention
        reconfigure(copied, analysis={"reported_layer": layer, "neighborhoods": [1]})
        steps = (("--design",), ("--shard", "0", "--of", "1"), ("--seal",))
        analysis = partial(run, copied, "replay-statistics", "--model", MODEL, "--part", "attention")
        for command in (*(partial(replay, copied, *step) for step in steps), analysis):
            with pytest.raises(
                ValueError, match=rf"replay\.analysis\.reported_layer: layer {layer} cannot be measured"
            ):
                command()
