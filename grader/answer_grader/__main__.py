"""The command `answer-grader`: verdicts on responses in a file."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from answer_grader import __version__
from answer_grader.json_lines import compare_files, grade_file


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; gives the exit code: 1 where a line was malformed, 2 where a file cannot be used."""
    parser = argparse.ArgumentParser(
        prog="answer-grader",
        description="Grade responses in a file of JSON lines, or compare two graded files.",
        epilog="A line has id, response and reference, and optionally kind (math, the default, integer, choice), problem "
        "(its text), choices (the options) and finish_reason. A line of the result has id, answer, verdict (correct, wrong, "
        "no_answer, timeout), correct and reason. Malformed lines are reported and skipped; the exit code is then 1.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    parser.add_argument("source", type=Path, help="responses; or graded lines, with --compare")
    parser.add_argument("target", type=Path, help="the file to write; or other graded lines, with --compare")
    parser.add_argument("--compare", action="store_true", help="list the lines on which two graded files differ")
    parser.add_argument("--workers", type=_positive, help="processes (default: the processors of this machine)")
    parser.add_argument(
        "--accept-choice-text", action="store_true", help="accept a letter that is followed by that option's own text"
    )
    words = parser.parse_args(arguments)
    try:
        if words.compare:
            differences = compare_files(words.source, words.target)
            encoding = sys.stdout.encoding or "utf-8"
            for each in differences:
                shown = f"{each.id}: {each.old_verdict} ({each.old_answer}) -> {each.new_verdict} ({each.new_answer})"
                # An answer can have half a surrogate pair, or a sign that the terminal's encoding lacks.
                print(shown.encode(encoding, "backslashreplace").decode(encoding))
            print(f"{len(differences)} lines differ")
            return 0
        report = grade_file(
            words.source,
            words.target,
            progress=_Progress(),
            workers=words.workers,
            accept_choice_text=words.accept_choice_text,
        )
    except (OSError, ValueError) as error:
        print(f"answer-grader: error: {error}", file=sys.stderr)
        return 2
    print(f"{report.graded} graded: " + ", ".join(f"{count} {verdict}" for verdict, count in report.verdicts.items()))
    if forms := str(report.forms):
        print(forms)
    for line in report.malformed:
        print(f"answer-grader: error: {words.source}, {line}", file=sys.stderr)
    return 1 if report.malformed else 0


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number of processes, 1 or more, found {text!r}")
    return int(text)


class _Progress:
    """Prints the progress of a long file every five seconds, by the bytes read."""

    def __init__(self) -> None:
        self._started = self._last_printed = time.monotonic()

    def __call__(self, read: int, total: int) -> None:
        now = time.monotonic()
        if now - self._last_printed < 5 or not read:
            return
        self._last_printed = now
        seconds_left = (now - self._started) / read * (total - read)
        print(f"{read / total:.0%} graded, about {seconds_left:.0f} s left", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
