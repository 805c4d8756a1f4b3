"""The digest of code: what it follows, and what it ignores."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stair.records import code_digest

ROOT = Path(__file__).parents[2]

FILES = {
    "house/__init__.py": "",
    "house/used.py": '"""A module."""\nfrom house.deep import lower\n\n\ndef area(x):\n    """Squares."""\n    return x * x\n',
    "house/deep/__init__.py": "",
    "house/deep/lower.py": "import house.late\nVALUE = 1\n",
    "house/late.py": "VALUE = 2\n",
    "house/unused.py": "VALUE = 3\n",
}


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small package in place of the real one."""
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(code_digest, "PACKAGES", ("house",))
    return tmp_path / "house"


def digest() -> str:
    code_digest.modules_digest.cache_clear()
    try:
        return code_digest.modules_digest("house.used")
    finally:
        code_digest.modules_digest.cache_clear()


@pytest.mark.parametrize(
    ("file", "old", "new", "follows"),
    [
        ("used.py", "x * x", "x * x * x", True),
        ("used.py", "def area(x):", "def area(y, x):", True),
        ("deep/lower.py", "VALUE = 1", "VALUE = 11", True),
        ("late.py", "VALUE = 2", "VALUE = 22", True),
        ("deep/__init__.py", "", "import house.unused\n", True),
        ("unused.py", "VALUE = 3", "VALUE = 33", False),
        ("used.py", "x * x", "x * x  # a square", False),
        ("used.py", "Squares.", "Squares a number.", False),
        ("used.py", "A module.", "Another text.", False),
        ("used.py", "return x * x", "\n    return (\n        x * x\n    )", False),
    ],
)
def test_the_digest_follows_code_and_ignores_comments(
    house: Path, file: str, old: str, new: str, follows: bool
) -> None:
    before = digest()
    text = (house / file).read_text()
    assert old in text
    (house / file).write_text(text.replace(old, new, 1) if old else new)
    assert (digest() != before) == follows


def test_what_was_parsed_is_kept_for_the_next_start(house: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = digest()
    (kept,) = (house / "__pycache__").glob("syntax-*.json")
    code_digest._parser.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr(code_digest, "_parse", lambda text: pytest.fail("a known file is parsed again"))
        assert digest() == parsed
    kept.write_text("{")
    code_digest._parser.cache_clear()
    assert digest() == parsed, "a damaged file is replaced"
    assert kept.read_text() != "{"


def test_the_code_of_verdicts_contains_no_code_of_the_configuration() -> None:
    reached = code_digest.modules_reached("stair.stages.evaluation.scores", "answer_grader.worker")
    assert [name for name in reached if name.startswith("stair.config")] == []


NEW_KEYS = {
    "evaluation.py": ("class Condition(Strict):", "class Evaluation(Strict):"),
    "backbones.py": ("class Model(Strict):",),
    "datasets.py": ("class Benchmark(Dataset):",),
    "training.py": ("class Controller(Strict):",),
    "engines.py": ("class TransformersEngine(Strict):",),
}
CHEAP = """
import os
import shutil
import subprocess
import sys
from pathlib import Path
from stair.config import resolve
from stair.records.keys import digest_of
from stair.pipeline.jobs import settings_of
config = resolve(Path({root!r}), {{"run": "tiny"}})
wildcards = {{"model": next(iter(config.models)), "benchmark": next(iter(config.benchmarks))}}
for rule, more in (
    ("score_condition", {{}}), ("check", {{}}), ("table", {{"table": "intervals"}}), ("data_report", {{}}),
    ("figure", {{"figure": "training_" + wildcards["model"]}}), ("data_card", {{}}), ("response_card", {{}}),
):
    print(rule, digest_of(settings_of(config, rule, wildcards | more)))
"""


def test_a_new_key_makes_no_verdict_check_or_table_stale(tmp_path: Path) -> None:
    def digests() -> str:
        done = subprocess.run(
            [sys.executable, "-c", CHEAP.format(root=str(ROOT))],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    for package in (ROOT / "stair", ROOT / "grader" / "answer_grader"):
        shutil.copytree(package, tmp_path / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    before = digests()
    for file, classes in NEW_KEYS.items():
        path = tmp_path / "stair" / "config" / file
        text = path.read_text(encoding="utf-8")
        for name in classes:
            assert name in text
            text = text.replace(name, f"{name}\n    novel: bool = False")
        path.write_text(text, encoding="utf-8")
    assert digests() == before
    # The copy is what was read.
    (tmp_path / "answer_grader" / "extraction.py").open("a", encoding="utf-8").write("\nADDED = 1\n")
    assert digests() != before


def test_cheap_rules_reach_the_code_that_makes_their_numbers() -> None:
    """The digests of scores and tables are made over the modules that decide verdicts and numbers."""
    for module, reached in (
        ("stair.stages.evaluation.scores", "answer_grader.extraction"),
        ("stair.paper.stage", "stair.statistics.metrics"),
    ):
        seen = code_digest.modules_reached(module)
        assert reached in seen
        assert not any(name.startswith("stair.engines.transformers") for name in seen)
