"""The tables and figures of a run in the paper's order, and those that the paper does not have."""

from __future__ import annotations

from typing import Literal, NamedTuple

from stair.config.model import Config
from stair.paper.table_inputs import every_figure, every_table

HISTORY, TURNS = "history_", "turns_"
"""Prefixes of the tables that the paper has for each model."""


class Shown(NamedTuple):
    """A table or figure of a run."""

    kind: Literal["table", "figure"]
    name: str
    in_paper: bool

    @property
    def anchor(self) -> str:
        """Its place on the report page."""
        return f"{self.kind}-{self.name}"


def shown(config: Config) -> list[Shown]:
    """Every table and figure of a run: first the paper's in its order, then all others."""
    tables, figures = every_table(config), every_figure(config)
    there = {"table": tables, "figure": figures}
    first = [Shown(kind, name, True) for kind, name in _paper_order(tables) if name in there[kind]]
    known = {(each.kind, each.name) for each in first}
    kinds: tuple[Literal["table", "figure"], ...] = ("table", "figure")
    rest = [Shown(kind, name, False) for kind in kinds for name in there[kind] if (kind, name) not in known]
    return first + rest


def _paper_order(tables: list[str]) -> list[tuple[Literal["table", "figure"], str]]:
    histories = [name for name in tables if name.startswith(HISTORY) and name != "history_correctness_summary"]
    turns = [name for name in tables if name.startswith(TURNS)]
    return [
        ("figure", "overview"),
        ("figure", "historical_computation"),
        ("table", "history_correctness_summary"),
        ("figure", "method"),
        ("table", "continuous_summary"),
        ("table", "shared_t1"),
        ("table", "lora_comparison"),
        ("table", "replay_design"),
        ("figure", "attention"),
        ("figure", "neighborhood"),
        ("table", "native_accuracy"),
        *(("table", name) for name in histories),
        ("figure", "read_prediction"),
        ("figure", "training_scope"),
        ("table", "controller_configuration"),
        ("table", "evaluation_decoding"),
        ("table", "bank_prefix_accuracy"),
        ("table", "bank_runtime"),
        *(("table", name) for name in turns[:1]),
        ("table", "lora_turns"),
        *(("table", name) for name in turns[1:]),
    ]
