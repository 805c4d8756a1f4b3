"""The texts that may not be published: questions of GPQA's stand-in, and responses that are long enough to quote them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow.parquet as pq

from stair.config.model import Config
from stair.config.paths import RunPaths


def withheld_texts(config: Config, paths: RunPaths) -> set[str]:
    """Whole questions and those without their options, and responses; white space is single spaces."""
    assert [key for key, item in config.benchmarks.items() if not item.publish_text] == ["gpqa_diamond"]
    problems = pq.read_table(paths.benchmark("gpqa_diamond"), columns=["problem"])["problem"].to_pylist()
    found = {" ".join(text.split()) for text in problems}
    found |= {question for text in found if len(question := text.split(" A. ")[0]) > 20}
    for model in config.models:
        responses = pq.read_table(paths.responses(model, "gpqa_diamond", "native"), columns=["response"])["response"]
        found |= {" ".join(text.split()) for text in responses.to_pylist() if len(text) > 40}
    return found


def assert_withheld(files: Iterable[Path], config: Config, paths: RunPaths) -> int:
    """No file contains such a text; returns how many files were read. Other benchmarks' rows may be as they are."""
    secrets, count = withheld_texts(config, paths), 0
    assert len(secrets) > 100
    for path in files:
        count += 1
        if path.suffix != ".parquet":
            content = path.read_bytes().decode("utf-8", errors="ignore")
        elif path.parent.name in config.benchmarks and path.parent.name != "gpqa_diamond":
            continue
        else:
            rows = pq.read_table(path).to_pylist()
            rows = [row for row in rows if row.get("benchmark", "gpqa_diamond") == "gpqa_diamond"]
            content = " ".join(str(value) for row in rows for value in row.values())
        content = " ".join(content.split())
        found = [secret for secret in secrets if secret in content]
        assert not found, (path, found[0])
    return count
