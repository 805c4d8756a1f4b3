"""Grading JSON lines, and comparing two such gradings of the same lines."""

import codecs
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from answer_grader.answer_forms import AnswerForms, answer_forms
from answer_grader.pool import Progress, grade_each
from answer_grader.verdict import KINDS, Item, Verdict

FINISH_REASONS = ("stop", "length", "context")

_BATCH_LINES = 4_000
_BATCH_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class MalformedLine:
    """A line that could not be graded. Lines count from 1."""

    line: int
    reason: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}"


@dataclass
class FileReport:
    """Counts of a file's lines by verdict, and the malformed lines."""

    verdicts: Counter[str] = field(default_factory=Counter)
    malformed: list[MalformedLine] = field(default_factory=list)
    forms: AnswerForms = field(default_factory=lambda: AnswerForms(0, None))

    @property
    def graded(self) -> int:
        """The number of graded lines."""
        return self.verdicts.total()


_EXPECTED = "give a file with one JSON object a line (answer-grader --help)"


def grade_file(
    source: Path,
    target: Path,
    *,
    progress: Progress | None = None,
    workers: int | None = None,
    accept_choice_text: bool = False,
) -> FileReport:
    """Grades `source`, one JSON object a line, into `target`, in the same order.

    A line has `id`, `response` and `reference`, and may have `kind` (`math`, the default, `integer`, `choice`), `problem`,
    `choices` (a list) and `finish_reason`; other keys are ignored. The target has `id`, `answer`, `verdict`, `correct`.
    Malformed and empty lines are left out of the target; malformed ones are named in the report. The target appears
    when it is complete; a link stays, and its file is written. `progress` is called with the bytes read so far and in total.
    Raises ValueError where the target is the source or no file, or the source is no file, has no lines or is UTF-16.
    """
    if source.is_dir() or not source.exists():
        raise ValueError(f"{source} {'is a folder' if source.is_dir() else 'does not exist'}; {_EXPECTED}")
    if target.exists() and target.samefile(source):
        raise ValueError(f"{target} holds the responses; give another file for the verdicts")
    if target.exists() and not target.is_file():
        raise ValueError(f"{target} is {'a folder' if target.is_dir() else 'no regular file'}; give a file to write")
    target = Path(os.path.realpath(target))
    report = FileReport()
    total, read = source.stat().st_size, 0
    lines_of: dict[object, int] = {}
    beside = target.with_name(target.name + ".part")
    # Half a surrogate pair, which JSON allows and UTF-8 does not, stays the escape that it was.
    with source.open("rb") as lines:
        if lines.peek(2)[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            raise ValueError(f"{source} is UTF-16; save it as UTF-8")
        with beside.open("w", encoding="utf-8", errors="backslashreplace") as output:
            for batch in _batches(lines):
                _grade_batch(batch, lines_of, report, output, workers, accept_choice_text)
                read += sum(len(line) for _, line in batch)
                if progress:
                    progress(read, total)
    if not report.graded and not report.malformed:
        beside.unlink()
        raise ValueError(f"{source} has no lines; {_EXPECTED}")
    os.replace(beside, target)
    report.malformed.sort(key=lambda each: each.line)
    return report


def _batches(lines: Iterable[bytes]) -> Iterator[list[tuple[int, bytes]]]:
    """Numbered lines, so many at a time that memory stays small whatever the file's size."""
    batch: list[tuple[int, bytes]] = []
    size = 0
    for number, line in enumerate(lines, start=1):
        batch.append((number, line))
        size += len(line)
        if len(batch) == _BATCH_LINES or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _grade_batch(
    batch: list[tuple[int, bytes]],
    lines_of: dict[object, int],
    report: FileReport,
    output: TextIO,
    workers: int | None,
    accept_choice_text: bool,
) -> None:
    lines: list[tuple[int, object]] = []
    items: list[Item] = []
    for number, line in batch:
        if not line.strip():
            continue
        try:
            name, item = parse_line(line)
            if lines_of.setdefault(name, number) != number:
                raise ValueError(f"id {name!r} occurs twice; it is on line {lines_of[name]} too")
        except ValueError as error:
            report.malformed.append(MalformedLine(number, str(error)))
            continue
        lines.append((number, name))
        items.append(item)
    settled: list[tuple[Item, Verdict]] = []
    results = grade_each(items, workers=workers, accept_choice_text=accept_choice_text)
    for (number, name), item, result in zip(lines, items, results, strict=True):
        if isinstance(result, ValueError):
            report.malformed.append(MalformedLine(number, str(result)))
            continue
        settled.append((item, result))
        report.verdicts[result.outcome] += 1
        record = {"id": name, "answer": result.answer, "verdict": result.outcome, "correct": result.correct}
        output.write(json.dumps(record | {"reason": result.reason}, ensure_ascii=False) + "\n")
    report.forms += answer_forms([item for item, _ in settled], [verdict for _, verdict in settled])


def parse_line(line: bytes) -> tuple[object, Item]:
    """The identity and the item of one line. Raises ValueError with the reason why it is malformed."""
    try:
        record = json.loads(line.rstrip(b"\r\n"))
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8: {error.reason} at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at column {error.colno}") from error
    except (RecursionError, ValueError) as error:
        raise ValueError(f"not JSON that can be read: {error}") from error
    if not isinstance(record, dict):
        raise ValueError(f"a JSON object is expected, not {type(record).__name__}")
    absent = [key for key in ("id", "response", "reference") if key not in record]
    if absent:
        raise ValueError(f"missing {', '.join(absent)}")
    if not _is_identity(record["id"]):
        raise ValueError("id must be a string or an integer")
    for key in ("response", "reference"):
        if not isinstance(record[key], str):
            raise ValueError(f"{key} must be a string, not {type(record[key]).__name__}")
    kind = record.get("kind", "math")
    if kind not in KINDS:
        raise ValueError(f"kind is {kind!r}; expected one of {', '.join(KINDS)}")
    hint, choices, finish = (record.get(key) for key in ("problem", "choices", "finish_reason"))
    if hint is not None and not isinstance(hint, str):
        raise ValueError("problem must be a string")
    if choices is not None and not (isinstance(choices, list) and all(isinstance(each, str) for each in choices)):
        raise ValueError("choices must be a list of strings")
    if choices is not None and not 2 <= len(choices) <= 26:
        raise ValueError(f"choices must be 2 to 26 options, not {len(choices)}")
    if finish is not None and finish not in FINISH_REASONS:
        raise ValueError(f"finish_reason is {finish!r}; expected one of {', '.join(FINISH_REASONS)}")
    return record["id"], Item(
        record["response"],
        record["reference"],
        kind,
        hint,
        None if choices is None else tuple(choices),
        finish,
    )


def _is_identity(value: object) -> bool:
    """A string or an integer; `true`, which Python counts among the integers, is none."""
    return isinstance(value, str | int) and not isinstance(value, bool)


@dataclass(frozen=True, slots=True)
class Difference:
    """A response with another answer or verdict in a second graded file; None where a file lacks the response."""

    id: str | int
    old_answer: str | None
    old_verdict: str | None
    new_answer: str | None
    new_verdict: str | None


def compare_files(old: Path, new: Path) -> list[Difference]:
    """The responses whose answer or verdict differs between two files written by `grade_file`.

    In the order of `old`; those that only `new` has come last. Raises ValueError for a line that is no graded line and
    for an identity that occurs twice in a file.
    """
    before, after = _graded(old), _graded(new)
    differences = []
    for name in dict.fromkeys([*before, *after]):
        old_entry, new_entry = before.get(name), after.get(name)
        if old_entry != new_entry:
            differences.append(Difference(name, *(old_entry or (None, None)), *(new_entry or (None, None))))
    return differences


def _graded(path: Path) -> dict[str | int, tuple[str | None, str | None]]:
    graded: dict[str | int, tuple[str | None, str | None]] = {}
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                record = json.loads(line)
                name, cells = record["id"], (record["answer"], record["verdict"])
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(f"{path}, line {number}: not a graded line ({error})") from error
            if not _is_identity(name):
                raise ValueError(f"{path}, line {number}: not a graded line (its id is no string or integer)")
            if name in graded:
                raise ValueError(f"{path}, line {number}: {name!r} occurs twice")
            graded[name] = cells
    return graded
