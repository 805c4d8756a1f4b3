"""Every command block of docs/operations.md, run word for word on a damaged smoke run."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from stair.cli.warm import SOCKET, warm_process
from stair.records.interruption import EXIT_AGAIN
from stair.records.worklog import WorkLog, WorkLogWriter
from tests.workflow.conftest import ROOT, SMOKE, contents, environment, jobs_of, run_in

pytestmark = pytest.mark.timeout(600)

PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
MODEL, BENCHMARK = "qwen3-4b-instruct", "math500"
RESPONSES = Path("results/smoke/responses") / MODEL / BENCHMARK
WORK = Path("results/smoke/work/evaluation") / MODEL / BENCHMARK
MADE = ("responses/**/*.parquet", "evaluation/**/*.parquet", "tables/*.csv")
NAMES = {"results/<run>": "results/smoke", "<run>": "smoke.yaml", "<model>": MODEL, "<benchmark>": BENCHMARK}

LIKE_THE_PROJECT = ("Snakefile", "config.yaml", "workflow", "profiles", "envs")

run_blocks: set[tuple[str, int]] = set()
"""The blocks that tests of this file run, by heading and number."""


def blocks(kind: str) -> dict[tuple[str, int], str]:
    """The page's code blocks of a kind by heading and number under it."""
    found: dict[tuple[str, int], str] = {}
    for section in re.split(r"^##+ ", PAGE, flags=re.MULTILINE)[1:]:
        for number, text in enumerate(re.findall(rf"```{kind}\n(.*?)```", section, flags=re.DOTALL)):
            found[section.splitlines()[0], number] = text
    return found


class OnPage:
    """A block of the page, which runs in a folder with the names of that run in place of the page's."""

    def __init__(self, heading: str, number: int = 0) -> None:
        run_blocks.add((heading, number))
        self._text = blocks("sh")[heading, number]

    def command(self, **names: str) -> str:
        """The block's commands."""
        text = self._text
        for name, value in {**NAMES, **{f"<{key.replace('_', ' ')}>": value for key, value in names.items()}}.items():
            text = text.replace(name, value)
        assert not re.search(r"<\w", text), f"a name of the page was not filled in: {text}"
        return text

    def __call__(self, folder: Path, *, code: int = 0, **names: str) -> subprocess.CompletedProcess[str]:
        command = self.command(**names)
        done = run_in(folder, "bash", "-c", command, check=False, warm=True)
        assert done.returncode == code, f"{command}\n{done.stdout}\n{done.stderr}"
        return done


WORKS = OnPage("Whether everything works")
REPEAT, UNLOCK = (OnPage("After a failure", number) for number in (0, 1))
TRY_AGAIN, REPORT = (OnPage("A response cannot be generated", number) for number in (0, 1))
LOCKED = OnPage("A dead process seems to drive the run")
DAMAGED = OnPage("An output is damaged, or was changed by hand")
COPIED = OnPage("The run, or its model's folder, was copied")
STOP, CONTINUE = (OnPage("Stopping on purpose", number) for number in (0, 1))
SHARDS = OnPage("Shards", 0)
LOOK = OnPage("Checking a run")
SUMMARY = OnPage("The run in one file")


def test_every_block_of_the_page_is_run() -> None:
    assert blocks("sh").keys() == run_blocks
    # No command stands in the text alone, where nothing runs it.
    fenced = "\n".join(blocks("sh").values())
    inline = set(re.findall(r"`((?:stair|snakemake|rm|mv) [a-z-]+)", re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)))
    elsewhere = {"stair doctor", "stair export", "stair tables"}
    assert {command for command in inline - elsewhere if command not in fenced} == set()


def like_the_project(finished_run: Path, folder: Path, overlay: str) -> Path:
    """A finished run in a folder like the project's, from which every command of the page can be given."""
    shutil.copytree(finished_run, folder, symlinks=True)
    for name in LIKE_THE_PROJECT:
        (folder / name).symlink_to(ROOT / name)
    (folder / "smoke.yaml").write_text(overlay)
    return folder


WITHOUT_STUDIES = f"""\
extends: {SMOKE}
replay: null
runtime: null
controls: null
select: {{controllers: [stair]}}
"""


@pytest.fixture(scope="module")
def whole(finished_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Training, evaluation and tables, which most of the page is about: a failure costs a third; not to be changed."""
    folder = like_the_project(finished_run, tmp_path_factory.mktemp("page") / "project", WITHOUT_STUDIES)
    run = folder / "results/smoke"
    for name in ("tables", "figures", "replay", "runtime", "shared_t1", f"responses/{MODEL}/{BENCHMARK}/shared_t1"):
        shutil.rmtree(run / name)
    for controller in ("bank_free", "lora", "lora_stair"):
        shutil.rmtree(run / "controllers" / MODEL / controller)
    run_in(folder, "stair", "reproduce", "--run", "smoke.yaml")
    return folder


@pytest.fixture
def project(whole: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may damage."""
    folder = tmp_path / "project"
    shutil.copytree(whole, folder, symlinks=True)
    return folder


def results(folder: Path) -> dict[str, bytes]:
    return contents(folder / "results/smoke", *MADE)


def forget(folder: Path, condition: str, *, log: bool = True) -> None:
    """The sealed responses of a condition are gone, with `log` also all that they were generated in."""
    (folder / RESPONSES / f"{condition}.parquet").unlink()
    if log:
        shutil.rmtree(folder / WORK / condition)


def evaluate(condition: str) -> tuple[str, ...]:
    """The command of a condition's one shard."""
    run = ("stair", "evaluation-shard", "--run", "results/smoke")
    return (*run, "--model", MODEL, "--benchmark", BENCHMARK, "--condition", condition)


def mark(folder: Path, condition: str) -> None:
    """A condition's shard has ended, and is not sealed yet."""
    run_in(folder, *evaluate(condition))
    assert (folder / WORK / condition / "shard-0-of-1.done").is_file()


def log_of(folder: Path, condition: str) -> Path:
    return folder / WORK / condition / "log"


def started(folder: Path, least: int) -> psutil.Popen:
    """The run, as soon as Native has more responses than so many in its log. The page's command to continue starts it."""
    with open(folder / "output.txt", "a", encoding="utf-8") as output:
        command = CONTINUE.command()
        child = psutil.Popen(["bash", "-c", command], cwd=folder, env=environment(), stdout=output, stderr=output)
    deadline = time.monotonic() + 200
    while len(WorkLog(log_of(folder, "native")).keys()) <= least:
        assert child.poll() is None and time.monotonic() < deadline, (folder / "output.txt").read_text()
        time.sleep(0.02)
    return child


def test_whether_everything_works(copied_run: Path) -> None:
    told = WORKS(copied_run).stdout
    assert "Smoke Qwen3" in told
    assert told.splitlines()[-1].endswith(" ok, 0 missing, 0 damaged, 0 stale")


def test_a_full_disk_a_stop_on_purpose_and_a_kill(whole: Path, project: Path) -> None:
    """No file may grow beyond some kilobytes, as where the disk has no more. Then there is room, and the run is stopped,
    goes on, is killed, and goes on by plain Snakemake."""
    forget(project, "native")
    done = run_in(project, "bash", "-c", f"ulimit -f 16; {' '.join(evaluate('native'))}", check=False)
    assert done.returncode == 2 and ".log cannot be written: File too large" in done.stderr
    kept = [set(WorkLog(log_of(project, "native")).keys())]

    child = started(project, len(kept[-1]))
    family = child.children(recursive=True)
    STOP(project, process=str(child.pid))
    assert child.wait(120) == EXIT_AGAIN
    assert not psutil.wait_procs(family, timeout=10)[1]
    *lines, last = (project / "output.txt").read_text().splitlines()
    assert last == "stair: stopped by SIGTERM; what was finished is kept; run the same command again to resume"
    assert not [line for line in lines if "fail" in line or "rror" in line or "did not complete" in line]
    run = project / "results/smoke"
    assert not list(run.glob(".snakemake/locks/*")) and not (run / "work/driver.pid").exists()
    kept.append(set(WorkLog(log_of(project, "native")).keys()))

    child = started(project, len(kept[-1]))
    family = child.children(recursive=True)
    child.kill()
    child.wait()
    assert not psutil.wait_procs(family, timeout=20)[1]
    kept.append(set(WorkLog(log_of(project, "native")).keys()))
    assert "--unlock" in run_in(project, "snakemake", "--config", "run=smoke.yaml", check=False).stderr
    UNLOCK(project)
    log = WorkLog(log_of(project, "native"))
    assert kept[0] < kept[1] < kept[2] <= set(log.keys()) and log.counts.duplicates == 0
    assert results(project) == results(whole)


def test_lost_logs_and_states(whole: Path, project: Path) -> None:
    """Vanilla loses the end of its log, Native a record in the middle, and STAIR the end with the states that it had captured.

    Vanilla's shard has ended, so its seal finds the gap. The others run again when Vanilla's T1 are sealed anew.
    """
    mark(project, "vanilla")
    (cut,) = log_of(project, "vanilla").glob("*.log")
    cut.write_bytes(cut.read_bytes()[:-5])
    (file,) = log_of(project, "native").glob("*.log")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(bytes(content))
    (file,) = log_of(project, "stair").glob("*.log")
    lines = file.read_bytes().splitlines(keepends=True)
    expected = pq.read_table(whole / RESPONSES / "stair.parquet").to_pylist()
    norms = {row["readout_norm"] for row in expected if row["turn"] == 3}
    # The last T3 and all behind it: its T1 and T2 remain in the log, without their states.
    last = max(n for n, line in enumerate(lines) if json.loads(line.split(b" ", 2)[2]).get("readout_norm") in norms)
    file.write_bytes(b"".join(lines[:last]))
    shutil.rmtree(project / WORK / "stair" / "banks", ignore_errors=True)
    for condition in ("vanilla", "native", "stair"):
        forget(project, condition, log=False)

    told = REPEAT(project, code=1).stderr
    assert "vanilla: 1 of 32 trajectories have not ended" in told
    REPEAT(project)
    apart = str((RESPONSES / "stair.parquet").relative_to("results/smoke"))
    found, before = (
        {name: each for name, each in results(folder).items() if name != apart} for folder in (project, whole)
    )
    assert found == before
    for condition, lost in (("vanilla", 1), ("native", 1), ("stair", len(lines) - last)):
        # What is left without the files from before was generated now.
        for path in log_of(whole, condition).glob("*.log"):
            (log_of(project, condition) / path.name).unlink()
        assert len(WorkLog(log_of(project, condition))) == lost, condition

    rows = pq.read_table(project / RESPONSES / "stair.parquet").to_pylist()
    assert [row["response_ids"] for row in rows] == [row["response_ids"] for row in expected]
    # Reconstructed states can have other bits, and then so has every bank behind them in a trajectory. `bank_source` is that of
    # the turn before alone.
    replayed = set()
    for row, sound in sorted(zip(rows, expected, strict=True), key=lambda pair: pair[0]["turn"]):
        if row["turn"] > 2:
            assert sound["bank_source"] == "decoded"
            chain = row["session_id"], row["sample"]
            replayed |= {chain} if row["bank_source"] == "replayed" else set()
            assert chain in replayed or row["bank_sha256"] == sound["bank_sha256"]
    assert replayed


FAULT = """
# Put into every process by PYTHONPATH: the device's memory does not hold one response, whose key a file gives.
import importlib.abc, importlib.util, os, sys
from pathlib import Path

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "stair.engines.transformers.prefill":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module
        def executed(module):
            run(module)
            whole = module.Prefill.__call__
            def refusing(self, requests, *more):
                faulty = Path(os.environ["FAULTY_KEY"])
                if faulty.is_file() and faulty.read_text() in {request.key for request in requests}:
                    raise module.torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 3.00 GiB.")
                return whole(self, requests, *more)
            module.Prefill.__call__ = refusing
        spec.loader.exec_module = executed
        return spec

sys.meta_path.insert(0, Finder())
"""


def test_a_response_that_cannot_be_generated(
    finished_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Native's T3 in one trajectory runs out of memory at every start; then it is accepted as missing, and all studies end."""
    whole, project = finished_run, like_the_project(finished_run, tmp_path / "project", SMOKE.read_text())
    rows = pq.read_table(whole / RESPONSES / "native.parquet").to_pylist()
    log = WorkLog(log_of(whole, "native"))
    keys = {tuple(record["response_ids"]): key for key, record in log.items() if "response_ids" in record}
    lost = next(
        row
        for row in rows
        if row["turn"] == 3 and sum(other["response_ids"] == row["response_ids"] for other in rows) == 1
    )
    (tmp_path / "fault").mkdir()
    (tmp_path / "fault" / "sitecustomize.py").write_text(FAULT)
    (tmp_path / "key").write_text(keys[tuple(lost["response_ids"])])
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "fault"))
    monkeypatch.setenv("FAULTY_KEY", str(tmp_path / "key"))
    forget(project, "native")
    place = f"session {lost['session_id']}, sample {lost['sample']}, turn 3"

    with warm_process(shell := environment()):  # with the fault
        monkeypatch.setenv(SOCKET, shell[SOCKET])
        assert run_in(project, *evaluate("native"), check=False).returncode == 2
        TRY_AGAIN(project, code=1)
    monkeypatch.delenv(SOCKET)
    monkeypatch.delenv("PYTHONPATH")  # without the fault, a second request would generate the response
    shard_log = project / "results/smoke/logs/evaluation" / MODEL / BENCHMARK / "native-0-of-1.log"
    told = shard_log.read_text()
    assert f"could not generate {place}: the device's memory does not suffice" in told and "Traceback" not in told
    assert len(WorkLog(log_of(project, "native"))) == len(log) - 2, "every other response was generated"

    ((_, page),) = blocks("yaml").items()
    overlay = project / "smoke.yaml"
    overlay.write_text(overlay.read_text() + page)
    REPORT(project)

    missing = json.loads((project / RESPONSES / "native.parquet.manifest.json").read_text())["missing"]
    named = [(gap["session_id"], gap["sample"], gap["turn"]) for gap in missing]
    assert named == [(lost["session_id"], lost["sample"], turn) for turn in (3, 4)]
    reason = missing[0]["reason"]
    assert "CUDA out of memory. Tried to allocate 3.00 GiB" in reason
    found = pq.read_table(project / RESPONSES / "native.parquet").to_pylist()
    assert found == [row for row in rows if (row["session_id"], row["sample"], row["turn"]) not in named]

    tables = project / "results/smoke/tables"
    summary = (tables / "continuous_summary.md").read_text()
    (line,) = [line for line in summary.splitlines() if line.startswith("| Native |")]
    assert line == "| Native | – | – |"
    (ours,) = [line for line in summary.splitlines() if "STAIR" in line and line.startswith("|")]
    before = (whole / "results/smoke/tables/continuous_summary.md").read_text()
    (theirs,) = [line for line in before.splitlines() if "STAIR" in line and line.startswith("|")]
    assert re.findall(r"\d+\.\d+", ours) == re.findall(r"\d+\.\d+", theirs), "no other cell has changed"
    assert f"Not reported: {MODEL}, {BENCHMARK}, native, T3: 1 of 32 responses missing" in summary and reason in summary
    turns = (tables / f"turns_{MODEL}.md").read_text()
    (line,) = [line for line in turns.splitlines() if line.startswith("| Native |")]
    cells = [cell.strip(" *") for cell in line.split("|")[2:-1]]
    assert [cell == "–" for cell in cells] == [False] * 4 + [True] * 6, (
        "T1 and T2 are reported, T3, T4 and the mean are not"
    )
    (note,) = [line for line in turns.splitlines() if line.startswith("Not reported")]
    assert (
        f"T3: 1 of 32 responses missing, first problem '{lost['problem_id']}', sample {lost['sample']} ({reason})"
        in note
    )
    assert note.endswith("; T4: 1 of 32.")
    for name in ("intervals", "comparisons", "native_accuracy", f"history_{MODEL}", "history_correctness_summary"):
        assert reason in (tables / f"{name}.md").read_text(), name
    assert "2 missing, as the manifest says" in (project / "results/smoke/checks.csv").read_text()
    verified = run_in(project, "stair", "verify", "--run", "results/smoke").stdout
    assert "0 missing, 0 damaged, 0 stale" in verified
    why = run_in(project, "stair", "why", str(RESPONSES / "native.parquet"), "--full").stdout
    assert why.splitlines()[2] == "  2 responses are missing; its manifest gives the reasons"


def test_a_copy_a_dead_driver_a_shard_that_ran_twice_other_shards_and_a_damaged_output(
    whole: Path, project: Path
) -> None:
    """In one folder, one after another: what is mended is as before."""
    run, dry = project / "results/smoke", ("snakemake", "-n", "--config", "run=smoke.yaml")
    # Inputs are newer than their outputs.
    times = {path: path.stat().st_mtime_ns for path in (run / "sessions").rglob("*.parquet")}
    for path in times:
        path.touch()
    assert jobs_of(run_in(project, *dry)) == {}
    COPIED(project)

    # By two processes at once; then a third log has another response under a key, as a GPU in BF16 can give it. The machine of
    # the driver is gone.
    forget(project, "native")
    with ThreadPoolExecutor() as pool:
        for done in pool.map(lambda _: run_in(project, *evaluate("native"), check=False), range(2)):
            assert done.returncode == 0, done.stderr
    log = WorkLog(log_of(project, "native"))
    key = next(iter(log.keys()))
    record = log.get(key)
    assert record is not None
    with WorkLogWriter(log_of(project, "native"), "shard-0-of-1") as writer:
        writer.append(key, {**record, "response": "another"})
    (run / ".snakemake/locks").mkdir(exist_ok=True)
    (run / ".snakemake/locks/0.output.lock").write_text("checks.csv\n")
    (run / "work/driver.pid").write_text("elsewhere:4321\n")
    refused = run_in(project, "stair", "reproduce", "--run", "smoke.yaml", check=False)
    (line,) = refused.stderr.splitlines()
    assert refused.returncode == 2 and "another process drives the run" in line and "process 4321 on elsewhere" in line
    LOCKED(project)
    assert results(project) == results(whole)
    assert "duplicates" in (run / f"logs/evaluation/{MODEL}/{BENCHMARK}/native-seal.log").read_text()

    # One shard of one has ended when the count changes.
    mark(project, "native")
    forget(project, "native", log=False)
    before = contents(log_of(project, "native"), "*.log")
    SHARDS(project)
    assert contents(log_of(project, "native"), "*.log") == before
    assert len(list((run / "logs/evaluation").rglob("native-*-of-3.log"))) == 3
    assert results(project) == results(whole)

    flip = Path("results/smoke/tables/intervals.md")
    (project / flip).write_bytes(b"?" + (project / flip).read_bytes()[1:])
    assert (
        "tables/intervals.md: does not match its sealed checksum" in DAMAGED(project, damaged_output=str(flip)).stdout
    )
    assert results(project) == results(whole)


def test_looking_at_a_run_and_a_copy_without_snakemakes_records(project: Path) -> None:
    done = LOOK(project)
    assert "0 missing, 0 damaged, 0 stale" in done.stdout
    assert re.search(r"^made by +table continuous_summary on ", done.stdout, re.MULTILINE)
    assert "\nfinished at " in done.stdout
    assert jobs_of(done) == {}
    summary = project / "results/smoke/provenance.json"
    summary.unlink()
    SUMMARY(project)
    assert json.loads(summary.read_text())["run"] == "smoke"

    shutil.rmtree(project / "results/smoke/.snakemake")
    done = run_in(
        project, "stair", "reproduce", "--run", "smoke.yaml", "--set", "evaluation={seed: other}", check=False
    )
    assert done.returncode == 2
    assert 'is stale: evaluation.seed was "evaluation", is "other"' in done.stderr
    assert "to make them again: rm -r " in done.stderr
