"""A part that crashes, hangs or runs out of memory loses no other; the page has each result."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from benchmarks.figures import Bar, Figures, Report
from benchmarks.gpu import running
from benchmarks.gpu.page import write_page
from benchmarks.gpu.parts import PARTS, Part
from benchmarks.gpu.running import Outcome, run_parts


def part(mode: str, seconds: int = 60) -> Part:
    return Part(mode, f"A part that {mode}.", "tests.gpu.part", seconds, cuda=f"'{mode}'", cpu=f"'{mode}'")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that a test can wait for."""
    monkeypatch.setattr(running, "LEAST_SECONDS", 1.0)
    monkeypatch.setattr(running, "KILL_SECONDS", 1.0)


def outcomes(*parts: Part, seconds: float = 300.0, device: str = "cpu") -> list[Outcome]:
    return list(run_parts(parts, device, seconds, lambda *_: None))


def page(path: Path, found: list[Outcome], device: str, waiting: tuple[Part, ...] = ()) -> str:
    write_page(
        path / "page.md",
        device=device,
        begun="today",
        seconds=61.0,
        facts={"GPU": "a|b"},
        outcomes=found,
        waiting=waiting,
    )
    return (path / "page.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("mode", "status", "reason", "figures"),
    [
        ("measures", "ran", "", ["fast"]),
        ("misses", "ran", "", ["fast", "slow", "absent"]),
        ("raises", "failed", "1 of its cases failed", ["fast", "after it"]),
        ("needs too much memory", "failed", "1 of its cases failed", ["fast"]),
        ("breaks the driver", "failed", "ended early with exit status 1", ["fast"]),
        ("raises outside", "failed", "ended early with exit status 1", ["fast"]),
        ("crashes", "failed", "killed by signal SIGABRT", ["fast"]),
    ],
)
def test_what_comes_of_a_part(mode: str, status: str, reason: str, figures: list[str]) -> None:
    (outcome,) = outcomes(part(mode))
    assert (outcome.status, outcome.reason) == (status, reason), outcome.output
    assert [figure.name for figure in outcome.report.figures] == figures
    assert outcome.missed == (mode == "misses")


@pytest.mark.usefixtures("impatient")
def test_a_part_that_hangs_is_stopped_with_all_that_it_started_and_the_next_one_runs() -> None:
    hung, after = outcomes(part("hangs", 3), part("measures", 60), seconds=63.0)
    assert (hung.status, after.status) == ("cut off", "ran")
    assert [figure.name for figure in hung.report.figures] == ["fast"]
    assert hung.seconds > 2.5
    child = int(hung.output.split()[-1])
    for _ in range(50):
        if not _alive(child):
            break
        time.sleep(0.1)
    assert not _alive(child)


@pytest.mark.usefixtures("impatient")
def test_a_part_that_does_not_end_when_killed_holds_up_no_other() -> None:
    """As one that waits for a hung driver: here a debugger keeps its end from its parent."""
    held, after = outcomes(part("is held", 3), part("measures", 60), seconds=63.0)
    assert (held.status, after.status) == ("cut off", "ran")
    assert held.reason.endswith("; it did not end when killed, and may hold memory of the GPU")


def _alive(process: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except FileNotFoundError:
        return False


def test_time_that_is_left_goes_to_the_next_part_and_without_time_none_begins() -> None:
    limits: dict[str, float] = {}
    parts = (part("measures", 20), part("misses", 20), part("raises", 20))
    for _ in run_parts(parts, "cpu", 100.0, lambda part, report, seconds, may: limits.update({part.name: may})):
        pass
    assert limits["measures"] == pytest.approx(60.0, abs=0.1)  # what the others do not need
    assert 60.0 < limits["misses"] < 80.0
    (outcome,) = outcomes(part("measures"), seconds=1.0)
    assert (outcome.status, outcome.reason) == ("not run", "no time is left")


def test_the_parts_shares_fit_into_fourteen_minutes() -> None:
    assert sum(part.seconds for part in PARTS) <= 830


def test_the_page_of_a_gpu_says_what_is_not_met_first(tmp_path: Path) -> None:
    found = outcomes(part("misses"), part("raises"), part("crashes"), device="cuda")
    text = page(tmp_path, found, "cuda", (part("hangs"),))
    assert "CPU" not in text
    assert "**Unfinished: hangs did not end.**" in text
    assert "- raises failed: 1 of its cases failed\n- crashes failed: killed by signal SIGABRT\n" in text
    assert text.index("- slow: 2.5 x, at most 2; target at most 1\n") < text.index("- fast: 1.5 x, target at most 1\n")
    assert "| GPU | a\\|b |" in text
    assert "| misses | A part that misses. | ran; **1 bars missed** | 0:0" in text
    assert "| fast | 1.5 | x | at most 2; target at most 1 | met; missed |  |" in text
    assert "| slow | 2.5 | x | at most 2; target at most 1 | **missed**; missed |  |" in text
    assert "| absent | - | x | at most 2 | not measured |  |" in text
    assert "Traceback (most recent call last)" in text
    assert "ValueError: what went wrong\n```" in text
    assert "```text\nsome | output" in text
    assert not list(tmp_path.glob(".*"))


def test_too_little_memory_is_one_line_of_the_page(tmp_path: Path) -> None:
    text = page(tmp_path, outcomes(part("needs too much memory")), "cpu")
    (line,) = [line for line in text.splitlines() if "can't allocate memory" in line]
    assert f"Failed: a large case\n\n```text\n{line}\n```" in text


def test_a_page_made_on_a_cpu_says_so_loudly_and_judges_nothing(tmp_path: Path) -> None:
    text = page(tmp_path, outcomes(part("misses")), "cpu")
    assert text.splitlines()[2].startswith("> **MADE ON A CPU AT REDUCED SHAPES.")
    assert "missed" not in text
    assert text.count("not judged") == 3  # two figures, and the sentence that says so


def test_figures_come_back_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "figures"
    figures = Figures(path)
    figures.add("one", 1.0, "s", Bar(2.0), Bar(100.0, at_least=True, target=True), note="a note")
    figures.left_out("two", "a reason")
    whole = Report.read(path)
    assert [(figure.name, figure.bars) for figure in whole.figures] == [
        ("one", (Bar(2.0), Bar(100.0, at_least=True, target=True)))
    ]
    assert (whole.left_out, whole.finished) == ([("two", "a reason")], False)
    with open(path, "a") as opened:
        opened.write('{"fig')  # a line that is being written
    assert Report.read(path) == whole
    assert Report.read(tmp_path / "none") == Report()


def test_without_a_file_a_failing_case_is_an_exception() -> None:
    with pytest.raises(ValueError, match="wrong"), Figures(None).case("a case"):
        raise ValueError("wrong")


def test_no_variable_of_this_process_hides_the_project_from_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    (outcome,) = outcomes(part("measures"))
    assert outcome.status == "ran", outcome.output
    assert os.environ["PYTHONPATH"] == "/nowhere"
