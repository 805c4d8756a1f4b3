"""No answer hangs, crashes, or is executed, and a verdict depends on the answer alone."""

import resource
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from labelled import PAIRS

from answer_grader import Item, Outcome, grade, grade_many, pool
from answer_grader.matching import equivalent, same_integer
from answer_grader.pool import Limits
from answer_grader.worker import _allow_cpu_seconds

HOSTILE = {
    "factorial": r"\boxed{(10^{10})!}",
    "tower": r"\boxed{9^{9^{9^9}}}",
    "braces": r"\boxed{" + "{" * 10_000 + "5" + "}" * 10_000 + "}",
    "long response": "x" * 2_000_000 + r"\boxed{6}",
    "commands that only begin like boxes": r"\boxedx \fboxed" * 150_000,
    "long box": r"\boxed{" + "1" * 2_000_000 + "}",
    "many boxes": r"\boxed{6} " * 200_000,
    "open boxes": r"\boxed{" * 280_000,
    "parentheses": r"\boxed{" + "(" * 1_900 + "5" + ")" * 1_900 + "}",
    "fractions": r"\boxed{" + r"\frac{1}{" * 400 + "2" + "}" * 400 + "}",
    "roots": r"\boxed{" + r"\sqrt" * 790 + "2}",
    "factorials": r"\boxed{3" + "!" * 700 + "}",
    "divisions": r"\boxed{" + "/".join("1" * 390) + "}",
    "powers": r"\boxed{(x+1)^{5000}(x+2)^{5000}(x+3)^{4999}}",
    "digits": r"\boxed{" + "7" * 1_300 + "^{" + "7" * 1_300 + "}}",
    "exponentials": r"\boxed{\exp(\exp(\exp(100)))}",
    "sine": r"\boxed{\sin(10^{10000})}",
    "sines": r"\boxed{" + "+".join([r"\sin x"] * 250) + "}",
    "gammas": r"\boxed{" + "+".join(["(x+4000.5)!"] * 80) + "}",
    "list": r"\boxed{" + ",".join(map(str, range(390))) + "}",
    "inequalities": r"\boxed{" + r"\text{ or }".join(f"x<{i}" for i in range(150)) + "}",
    "signs": r"\boxed{" + r"\pm 1" * 300 + "}",
    "period": r"\boxed{0.\overline{" + "3" * 3_900 + "}}",
    "exponent": r"\boxed{1e999999999}",
    "sums": r"\boxed{" + r"\sum_{k=1}^{900}" * 3 + "k}",
    "sums of powers": r"\boxed{\sum_{k=1}^{900} k^{2000}}",
    "series": r"\boxed{" + r"\sum_{k=0}^{\infty} x^k" * 5 + "}",
    "sum to a tower": r"\boxed{\sum_{k=1}^{9^{9^9}} k}",
    "vectors": r"\boxed{" + "+".join(["(1,2)"] * 39) + "}",
    "function in brackets": r"\boxed{" + "(" * 50 + r"\gcd(4,6)" + ")" * 50 + "}",
    "systems": r"\boxed{" + r"\begin{cases}" * 150 + "=" * 2_000 + "}",
    "transposes": r"\boxed{" + "(" * 40 + r"\gcd(4,6)" + ")^T" * 40 + "}",
}


OTHERS = [("5", "integer"), ("x < 3", "math"), ("B", "choice")]


def test_hostile_answers_end_with_a_verdict() -> None:
    """Within the limits of a worker. One parser serves all kinds, so they share every fourth answer."""
    items = [Item(answer, r"\{1, x^2\}", "math") for answer in HOSTILE.values()]
    items += [Item(answer, *other) for answer in list(HOSTILE.values())[::4] for other in OTHERS]
    outcomes = [each.outcome for each in grade_many(items, workers=2)]
    assert set(outcomes) == {Outcome.WRONG, Outcome.NO_ANSWER}, list(zip(outcomes, HOSTILE, strict=False))


def test_too_large_to_compute_is_still_equal_to_itself() -> None:
    assert grade(r"\boxed{9^{9^{9^9}}}", "9^{9^{9^{9}}}", "math").correct
    assert not grade(r"\boxed{9^{9^{9^9}}}", "9^{9^{9^{8}}}", "math").correct
    assert grade(r"\boxed{(10^{10})! + 1}", "1 + (10^{10})!", "math").correct


@pytest.mark.parametrize(
    ("answer", "reference", "same"),
    [
        (r"\operatorname{sgn}(i)", "1", False),
        (r"\operatorname{sgn}(-\sqrt{2})", "-1", True),
        (r"\max(i, 2)", "2", False),
        (r"\min(\infty, 2, -1)", "-1", True),
        (r"\max(\sqrt{2}, 1)", r"\sqrt{2}", True),
        (r"\lfloor i \rfloor", "0", False),
    ],
)
def test_functions_of_any_number_have_a_value_or_none(answer: str, reference: str, same: bool) -> None:
    assert grade(rf"\boxed{{{answer}}}", reference).correct is same


VOCABULARY = (
    r"{ } ( ) [ ] \{ \} | , ; : + - * / ^ _ = < > \le \ne \in \cup \setminus \pm \mp \frac \sqrt \sqrt[3] \binom \text{ "
    r"\text{cm} \text{or} and \begin{pmatrix} \end{pmatrix} \\ & x y n e i 12 3.5 0.\overline{3} 1,234 \pi \infty ! ' \% \$ "
    r"^\circ \sin \log_2 \ln 10^{10} \mathbb{R} \emptyset a.m. th _7 million base \langle \rangle \ldots \pmod \left "
    r"\lfloor \rfloor \, \! ~ $ ½ ² √ abc east"
)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(
    st.lists(st.sampled_from(VOCABULARY.split()), min_size=1, max_size=14),
    st.sampled_from([pair["reference"] for pair in PAIRS if pair["kind"] == "math"]),
    st.sampled_from([pair["problem"] for pair in PAIRS]),
)
def test_no_answer_raises(words: list[str], reference: str, hint: str | None) -> None:
    for answer in ("".join(words), " ".join(words)):
        equivalent(answer, reference, hint)
        same_integer(answer, "42", hint)


def test_answers_are_not_executed(tmp_path: Path) -> None:
    trap = tmp_path / "executed"
    for code in (
        f"__import__('pathlib').Path('{trap}').touch()",
        f"open('{trap}', 'w')",
        f"exec(\"open('{trap}','w')\")",
    ):
        grade(rf"\boxed{{{code}}}", "5", "math")
        grade(rf"\boxed{{\text{{{code}}}}}", code, "math")
    assert not trap.exists()


def test_scoring_in_threads() -> None:
    """Time limits by signals would fail outside of the main thread, and shared precision would mix."""
    pairs = PAIRS[::6]
    wrong: list[str] = []

    def check() -> None:
        for pair in pairs:
            result = grade(pair["response"], pair["reference"], pair["kind"], problem=pair["problem"])
            if result.correct != pair["equal"]:
                wrong.append(pair["response"])

    threads = [threading.Thread(target=check) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


MISBEHAVING = """
import sys
from answer_grader import worker

honest = worker.answer_matches

def answer_matches(answer, reference, kind, hint):
    while answer == "spin":
        pass
    if answer == "grow":
        held = []
        while True:
            held.append(bytearray(1 << 24))
    if answer == "crash":
        import os
        os.abort()
    return honest(answer, reference, kind, hint)

worker.answer_matches = answer_matches
sys.exit(worker.main(sys.argv[1:]))
"""


@pytest.fixture
def misbehaving_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "WORKER_COMMAND", [sys.executable, "-c", MISBEHAVING])


@pytest.mark.usefixtures("misbehaving_worker")
def test_a_worker_beyond_its_limits_gives_a_timeout_and_the_rest_is_scored() -> None:
    answers = ["1", "spin", "2", "grow", "3", "4"]
    items = [Item(rf"\boxed{{{answer}}}", "3", "math") for answer in answers]
    seen: list[int] = []
    limits = Limits(cpu_seconds=1, memory_bytes=1 << 29)
    scores = grade_many(items, workers=1, limits=limits, progress=lambda done, _: seen.append(done))
    assert [each.outcome for each in scores] == ["wrong", "timeout", "wrong", "timeout", "correct", "wrong"]
    assert [each.answer for each in scores] == answers
    assert seen[-1] == len(items)
    assert seen == sorted(seen)


@pytest.mark.usefixtures("misbehaving_worker")
def test_a_worker_that_crashes_is_an_error_and_no_verdict() -> None:
    with pytest.raises(RuntimeError, match="'crash'"):
        grade_many([Item(r"\boxed{crash}", "3", "math")], workers=1)


def test_a_long_choice_reference_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="is not one of the choice letters"):
        grade(r"\boxed{C}", r"\boxed{" * 8000 + "C" + "}" * 8000, "choice")


def test_each_comparison_of_a_worker_has_its_own_seconds() -> None:
    """Behind the time that the process has used, rounded up."""
    kept, before = resource.getrlimit(resource.RLIMIT_CPU), time.process_time()
    try:
        _allow_cpu_seconds(1_000)
        until, _ = resource.getrlimit(resource.RLIMIT_CPU)
    finally:
        resource.setrlimit(resource.RLIMIT_CPU, kept)
    assert before + 1_000 <= until <= time.process_time() + 1_001
