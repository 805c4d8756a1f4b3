"""Scoring JSON lines and comparing scored files."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from answer_grader import __version__
from answer_grader.__main__ import _Progress, main
from answer_grader.answer_forms import AnswerForms
from answer_grader.json_lines import Difference, compare_files, grade_file

GOOD = {"id": "a", "kind": "math", "response": r"\boxed{0.5}", "reference": r"\frac{1}{2}"}

OTHER = GOOD | {"id": "y"}


def write(path: Path, lines: list[object]) -> Path:
    encoded = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    path.write_bytes(b"\n".join(encoded) + b"\n")
    return path


def test_lines_are_scored_in_order(tmp_path: Path) -> None:
    source = write(
        tmp_path / "in.jsonl",
        [
            GOOD,
            {"id": 2, "kind": "choice", "response": r"\boxed{(b)}", "reference": "B", "choices": ["w", "x", "y", "z"]},
            {"id": "c", "kind": "integer", "response": "41", "reference": "41"},
            {"id": "d", "kind": "math", "response": r"\boxed{5\%}", "reference": "5", "problem": "What percent?"},
            {
                "id": "e",
                "kind": "math",
                "response": r"\boxed{5}",
                "reference": "5",
                "finish_reason": "context",
                "more": 1,
            },
        ],
    )
    seen: list[tuple[int, int]] = []
    report = grade_file(source, tmp_path / "out.jsonl", progress=lambda done, total: seen.append((done, total)))
    assert [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()] == [
        {"id": "a", "answer": "0.5", "verdict": "correct", "correct": True, "reason": "equal: a value"},
        {"id": 2, "answer": "(b)", "verdict": "correct", "correct": True, "reason": "the letter"},
        {"id": "c", "answer": None, "verdict": "no_answer", "correct": False, "reason": "no complete last box"},
        {"id": "d", "answer": "5\\%", "verdict": "correct", "correct": True, "reason": "equal: a value with a unit"},
        {"id": "e", "answer": "5", "verdict": "wrong", "correct": False, "reason": "the model's context ran out"},
    ]
    assert (report.graded, report.malformed) == (5, [])
    assert report.verdicts == {"correct": 3, "no_answer": 1, "wrong": 1}
    assert report.forms == AnswerForms(several_boxes=0, choice_text=0)
    assert seen[-1] == (source.stat().st_size,) * 2


@pytest.mark.parametrize(
    ("content", "problem"), [(None, "does not exist"), (b"", "has no lines"), (b"\n \n", "has no lines")]
)
def test_a_file_without_lines_is_an_error_and_writes_nothing(
    tmp_path: Path, content: bytes | None, problem: str
) -> None:
    source = tmp_path / "in.jsonl"
    if content is not None:
        source.write_bytes(content)
    with pytest.raises(ValueError, match=rf"in\.jsonl {problem}; give a file with one JSON object a line"):
        grade_file(source, tmp_path / "out.jsonl")
    with pytest.raises(ValueError, match="is a folder; give a file"):
        grade_file(tmp_path, tmp_path / "out.jsonl")
    assert [path.name for path in tmp_path.iterdir()] == (["in.jsonl"] if content is not None else [])


def test_the_forms_of_answers_are_counted_and_not_scored(tmp_path: Path) -> None:
    asked = {"kind": "choice", "reference": "B", "choices": ["w", "x", "y", "z"]}
    source = write(
        tmp_path / "in.jsonl",
        [
            GOOD | {"response": r"\boxed{2}, \boxed{0.5}"},
            asked | {"id": "b", "response": r"\boxed{B) x}"},
            asked | {"id": "c", "response": r"\boxed{B) y}"},
            b"{",
        ],
    )
    report = grade_file(source, tmp_path / "out.jsonl")
    assert report.verdicts == {"correct": 1, "wrong": 2}
    assert report.forms == AnswerForms(several_boxes=1, choice_text=1)
    assert str(report.forms) == (
        "1 end in several adjacent boxes, of which the last one counts; 1 would be correct with --accept-choice-text"
    )
    accepted = grade_file(source, tmp_path / "out.jsonl", accept_choice_text=True)
    assert accepted.verdicts["correct"] == report.verdicts["correct"] + report.forms.choice_text


def test_math_is_the_kind_of_a_line_without_one(tmp_path: Path) -> None:
    line = {key: value for key, value in GOOD.items() if key != "kind"}
    assert grade_file(write(tmp_path / "in.jsonl", [line]), tmp_path / "out.jsonl").verdicts == {"correct": 1}


def test_the_command_prints_no_counts_of_zero(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    choice = {"id": "b", "kind": "choice", "response": r"\boxed{B}", "reference": "B", "choices": ["w", "x"]}
    source = write(tmp_path / "in.jsonl", [GOOD, choice])
    assert main([str(source), str(tmp_path / "out.jsonl")]) == 0
    assert capsys.readouterr().out == "2 graded: 2 correct\n"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "not JSON: Expecting property name enclosed in double quotes at column 2"),
        (b'{"id": "x", "kind": "math"', "not JSON: Expecting ',' delimiter at column 27"),
        (GOOD, "id 'a' occurs twice; it is on line 1 too"),
        (b"[" * 100_000, "not JSON that can be read"),
        (b'{"id": ' + b"9" * 5_000 + b"}", "not JSON that can be read"),
        (b"[1]", "a JSON object is expected, not list"),
        (b'{"id": "\xff"}', "not UTF-8"),
        ({"id": "x", "kind": "math"}, "missing response, reference"),
        (GOOD | {"kind": "number"}, "kind is 'number'; expected one of math, integer, choice"),
        (GOOD | {"kind": ["math"]}, "kind is"),
        (GOOD | {"response": None}, "response must be a string, not NoneType"),
        (GOOD | {"id": None}, "id must be a string or an integer"),
        (GOOD | {"id": True}, "id must be a string or an integer"),
        (GOOD | {"id": 1.5}, "id must be a string or an integer"),
        (GOOD | {"problem": 3}, "problem must be a string"),
        (GOOD | {"choices": "ABCD"}, "choices must be a list of strings"),
        (GOOD | {"choices": []}, "choices must be 2 to 26 options, not 0"),
        (GOOD | {"choices": ["x"] * 27}, "choices must be 2 to 26 options, not 27"),
        (GOOD | {"finish_reason": "done"}, "finish_reason is 'done'"),
        (OTHER | {"kind": "integer"}, None),
        (OTHER | {"kind": "integer", "reference": "half"}, "reference 'half' is not an integer"),
        (OTHER | {"kind": "choice", "reference": "7"}, "reference '7' is not one of the choice letters"),
        (OTHER | {"reference": " "}, "the reference is empty"),
    ],
)
def test_malformed_lines_are_named_and_the_rest_is_scored(tmp_path: Path, line: object, reason: str | None) -> None:
    if reason is None:
        reason = "is not an integer"
    source = write(tmp_path / "in.jsonl", [GOOD, b"", line, GOOD | {"id": "z"}])
    report = grade_file(source, tmp_path / "out.jsonl", workers=0)
    (malformed,) = report.malformed
    assert malformed.line == 3
    assert reason in malformed.reason
    assert str(malformed).startswith("line 3: ")
    written = [json.loads(each)["id"] for each in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert written == ["a", "z"]


def test_half_a_surrogate_pair_is_an_answer_like_any_other(tmp_path: Path) -> None:
    source = write(
        tmp_path / "in.jsonl", [GOOD, GOOD | {"id": "half", "response": "\\boxed{\ud83d}"}, GOOD | {"id": "z"}]
    )
    report = grade_file(source, tmp_path / "out.jsonl", workers=1)
    assert (report.verdicts, report.malformed) == ({"correct": 2, "wrong": 1}, [])
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert (lines[1]["answer"], lines[1]["verdict"]) == ("\ud83d", "wrong")


def test_the_responses_are_not_overwritten(tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", [GOOD])
    with pytest.raises(ValueError, match="holds the responses"):
        grade_file(source, source)
    assert json.loads(source.read_text()) == GOOD


def test_the_target_appears_only_when_it_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = write(tmp_path / "in.jsonl", [GOOD]), tmp_path / "out.jsonl"
    target.write_text("before")

    def fail(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("answer_grader.json_lines.grade_each", fail)
    with pytest.raises(KeyboardInterrupt):
        grade_file(source, target)
    assert target.read_text() == "before"


def scored(name: str, answer: str | None, verdict: str) -> dict[str, object]:
    return {"id": name, "answer": answer, "verdict": verdict, "correct": verdict == "correct"}


def test_files_of_two_versions_are_compared_by_identity(tmp_path: Path) -> None:
    old = write(
        tmp_path / "old", [scored("a", "1", "correct"), scored("b", "2", "wrong"), scored("c", None, "no_answer")]
    )
    new = write(
        tmp_path / "new", [scored("b", "2", "correct"), scored("a", "1", "correct"), scored("d", "4", "timeout")]
    )
    assert compare_files(old, new) == [
        Difference("b", "2", "wrong", "2", "correct"),
        Difference("c", None, "no_answer", None, None),
        Difference("d", None, None, "4", "timeout"),
    ]
    assert compare_files(old, old) == []


def test_files_that_are_not_scored_or_repeat_an_identity_are_refused(tmp_path: Path) -> None:
    good = write(tmp_path / "good", [scored("a", "1", "correct")])
    with pytest.raises(ValueError, match="line 1: not a graded line"):
        compare_files(good, write(tmp_path / "bad", [GOOD]))
    with pytest.raises(ValueError, match="'a' occurs twice"):
        compare_files(good, write(tmp_path / "twice", [scored("a", "1", "correct")] * 2))
    for identity in ([1], True):
        with pytest.raises(ValueError, match="its id is no string or integer"):
            compare_files(good, write(tmp_path / "identity", [scored("a", "1", "correct") | {"id": identity}]))


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "answer_grader", *words], capture_output=True, encoding="utf-8", check=False
    )


def test_half_a_surrogate_pair_is_printed_as_it_is_written(tmp_path: Path) -> None:
    old = write(tmp_path / "old", [scored("\ud83d", "\ud83d", "wrong"), scored("b", "2", "wrong")])
    new = write(tmp_path / "new", [scored("\ud83d", "\ud83e", "wrong"), scored("b", "2", "wrong")])
    done = run("--compare", str(old), str(new))
    assert done.stdout == "\\ud83d: wrong (\\ud83d) -> wrong (\\ud83e)\n1 lines differ\n"
    assert (done.returncode, done.stderr) == (0, "")


def test_a_sign_that_the_terminal_lacks_is_printed_as_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "latin-1")
    old = write(tmp_path / "old", [scored("a", "π", "wrong")])
    new = write(tmp_path / "new", [scored("a", "π/2", "correct")])
    done = run("--compare", str(old), str(new))
    assert done.stdout == "a: wrong (\\u03c0) -> correct (\\u03c0/2)\n1 lines differ\n"
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("number", ["0", "-1", "two"])
def test_a_number_of_processes_that_cannot_be_is_named(number: str) -> None:
    done = run("a", "b", f"--workers={number}")
    assert done.returncode == 2
    assert f"argument --workers: expected a number of processes, 1 or more, found '{number}'" in done.stderr


def test_a_target_that_is_no_file_stays_and_a_link_keeps_its_file(tmp_path: Path) -> None:
    source = write(tmp_path / "in", [GOOD])
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "to pipe").symlink_to("pipe")
    for name, reason in (("pipe", "no regular file"), ("to pipe", "no regular file"), (".", "a folder")):
        done = run(str(source), str(tmp_path / name))
        assert done.returncode == 2
        assert done.stderr == f"answer-grader: error: {tmp_path / name} is {reason}; give a file to write\n"
    assert (tmp_path / "pipe").is_fifo()
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder/out")
    for _ in range(2):
        grade_file(source, tmp_path / "link", workers=0)
        assert (tmp_path / "link").is_symlink()
        assert '"correct"' in (tmp_path / "folder" / "out").read_text()


def test_utf_16_is_named(tmp_path: Path) -> None:
    (tmp_path / "in").write_text(json.dumps(GOOD), encoding="utf-16")
    with pytest.raises(ValueError, match="in is UTF-16; save it as UTF-8"):
        grade_file(tmp_path / "in", tmp_path / "out")
    assert not list(tmp_path.glob("out*"))


def test_progress_is_printed_after_five_seconds_and_not_before_something_is_read(
    capsys: pytest.CaptureFixture[str],
) -> None:
    progress = _Progress()
    progress(5, 10)
    progress._started -= 6
    progress._last_printed -= 6
    progress(0, 10)
    progress(5, 10)
    progress(6, 10)
    assert capsys.readouterr().err == "50% graded, about 6 s left\n"


def test_the_version_is_printed() -> None:
    assert run("--version").stdout == f"answer-grader {__version__}\n"
