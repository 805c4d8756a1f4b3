"""answer-grader beside math-verify and sympy: accuracy on labelled pairs, and time.

    pip install "math-verify[antlr4_13_2]==0.9.0" lark
    python benchmark.py [PAIRS.jsonl ...]

Each line of a file has `kind`, `response`, `reference`, `problem` and `equal`, as tests/labelled_pairs.jsonl has. Prints a
table in Markdown for each kind and for all of a file's pairs; progress goes to the standard error. A grader whose package is
not installed is left out. The labelled pairs take about 10 minutes, nearly all of them math-verify's and sympy's.
"""

import argparse
import json
import logging
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from answer_grader import Item, grade_many

DEFAULT = Path(__file__).parent / "tests/labelled_pairs.jsonl"

CHUNK = 100
"""Pairs between two reports of progress."""

Pair = dict[str, Any]
Grader = Callable[[list[Pair]], list[bool]]


@dataclass(frozen=True)
class Result:
    """Counts of one grader on one set of pairs."""

    name: str
    pairs: int
    false_positives: int
    false_negatives: int
    seconds: float

    @property
    def accuracy(self) -> float:
        return 100.0 * (1.0 - (self.false_positives + self.false_negatives) / self.pairs)

    def __add__(self, other: "Result") -> "Result":
        return Result(
            self.name,
            self.pairs + other.pairs,
            self.false_positives + other.false_positives,
            self.false_negatives + other.false_negatives,
            self.seconds + other.seconds,
        )

    def row(self) -> str:
        counts = f"{self.false_positives} / {self.false_negatives}"
        return f"| {self.name} | {self.accuracy:.1f}% | {counts} | {1000 * self.seconds / self.pairs:.1f} |"


def own_verdicts(pairs: list[Pair]) -> list[bool]:
    items = [Item(pair["response"], pair["reference"], pair["kind"], pair["problem"]) for pair in pairs]
    return [verdict.correct for verdict in grade_many(items, workers=0)]


def without_problem(pairs: list[Pair]) -> list[bool]:
    return own_verdicts([{**pair, "problem": None} for pair in pairs])


def math_verify(pairs: list[Pair]) -> list[bool]:
    return _math_verify(pairs)


def strict_math_verify(pairs: list[Pair]) -> list[bool]:
    return _math_verify(pairs, float_rounding=12, numeric_precision=200, allow_set_relation_comp=True)


def _math_verify(pairs: list[Pair], **options: Any) -> list[bool]:
    from math_verify import LatexExtractionConfig, parse, verify

    logging.getLogger("math_verify").setLevel(logging.CRITICAL)
    boxed = [LatexExtractionConfig(boxed_match_priority=0)]
    verdicts = []
    for pair in pairs:
        reference = parse(f"\\boxed{{{pair['reference']}}}", boxed)
        verdicts.append(bool(verify(reference, parse(pair["response"], boxed), **options)))
    return verdicts


def sympy_parser(pairs: list[Pair]) -> list[bool]:
    """The last box read by sympy's LaTeX parser; equal where the difference simplifies to zero."""
    from answer_grader.extraction import last_boxed

    return [_by_sympy(last_boxed(pair["response"]), pair["reference"]) for pair in pairs]


def _by_sympy(answer: str | None, reference: str) -> bool:
    import lark  # noqa: F401 (sympy's parser needs it)
    from sympy import simplify
    from sympy.parsing.latex import parse_latex

    if answer is None or answer == reference:
        return answer is not None
    try:
        with time_limit(5):
            return bool(simplify(parse_latex(answer, backend="lark") - parse_latex(reference, backend="lark")) == 0)
    except Exception:
        return False


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raises TimeoutError in the main thread after so many seconds."""

    def stop(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


GRADERS: dict[str, Grader] = {
    "answer-grader": own_verdicts,
    "answer-grader, without the problem's text": without_problem,
    "math-verify 0.9.0": math_verify,
    "the same, `float_rounding=12, numeric_precision=200, allow_set_relation_comp=True`": strict_math_verify,
    "sympy's parser": sympy_parser,
}


def measure(name: str, grader: Grader, pairs: list[Pair]) -> Result:
    """One grader's result on pairs of one kind. Raises ImportError where its package is not installed."""
    verdicts: list[bool] = []
    start = time.perf_counter()
    for first in range(0, len(pairs), CHUNK):
        verdicts += grader(pairs[first : first + CHUNK])
        seconds = time.perf_counter() - start
        print(f"{name}: {len(verdicts):,} of {len(pairs):,} {pairs[0]['kind']}, {seconds:.0f} s", file=sys.stderr)
    errors = [verdict for verdict, pair in zip(verdicts, pairs, strict=True) if verdict != pair["equal"]]
    return Result(name, len(pairs), sum(errors), len(errors) - sum(errors), seconds)


def print_table(title: str, pairs: list[Pair], rows: list[str]) -> None:
    print(f"\n{title}: {len(pairs):,} pairs, {sum(pair['equal'] for pair in pairs):,} of them equal\n")
    print("| grader | accuracy | false positives / negatives | s per 1,000 |\n|---|---|---|---|")
    print(*rows, sep="\n", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", type=Path, nargs="*", default=[DEFAULT])
    for path in parser.parse_args().pairs:
        pairs = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        totals: dict[str, Result] = {}
        for kind in ("math", "integer", "choice"):
            chosen = [pair for pair in pairs if pair["kind"] == kind]
            if not chosen:
                continue
            rows = []
            for name, grader in GRADERS.items():
                try:
                    result = measure(name, grader, chosen)
                    totals[name] = totals[name] + result if name in totals else result
                    rows.append(result.row())
                except ImportError as error:
                    rows.append(f"| {name} | {error} |  |  |")
            print_table(f"{path.name}, {kind}", chosen, rows)
        print_table(f"{path.name}, all", pairs, [total.row() for total in totals.values()])


if __name__ == "__main__":
    main()
