"""Every key is explained in config.yaml."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from stair.config.model import Config

ROOT = Path(__file__).parents[2]
CONFIG = (ROOT / "config.yaml").read_text(encoding="utf-8")


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The typed models that an annotation holds, at any depth."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from models_in(part)


def keys_below(model: type[BaseModel]) -> Iterator[str]:
    """All keys that a section can have."""
    for name, field in model.model_fields.items():
        yield name
        for inner in models_in(field.annotation):
            yield from keys_below(inner)


def sections() -> dict[str, str]:
    """Each top-level key of config.yaml with its text and the comment above it."""
    found: dict[str, str] = {}
    comment: list[str] = []
    current: str | None = None
    for line in CONFIG.splitlines():
        if line.startswith("#"):
            comment.append(line)
        elif top := re.match(r"([a-z_]+):", line):
            current = top[1]
            found[current] = "\n".join([*comment, line])
            comment = []
        elif current is not None and line.strip():
            found[current] += "\n" + line
        else:
            comment = []
    return found


def test_every_section_stands_in_config_yaml_under_a_comment() -> None:
    found = sections()
    assert list(found) == list(Config.model_fields), "the sections of config.yaml, in the order of the typed model"
    for key, text in found.items():
        comment = "".join(line for line in text.splitlines() if line.startswith("#"))
        assert len(comment.strip("#- ")) > 20, f"config.yaml says nothing about '{key}'"


@pytest.mark.parametrize("section", list(Config.model_fields))
def test_every_key_of_a_section_is_used_or_named_there(section: str) -> None:
    text = sections()[section]
    if section == "training_pool":
        text += sections()["benchmarks"]  # both are data sets; the comment on their sources stands once
    for model in models_in(Config.model_fields[section].annotation):
        for key in keys_below(model):
            assert re.search(rf"\b{key}\b", text), (
                f"'{key}' is neither used nor explained in '{section}' of config.yaml"
            )
