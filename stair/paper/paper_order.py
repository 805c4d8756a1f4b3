"""The tables and figures of a run in the paper's order, those that the paper does not have, and captions of figures."""

from __future__ import annotations

from typing import Literal, NamedTuple

from stair.config.model import Config
from stair.paper.labels import Labels
from stair.paper.table_inputs import BANK_COST_FIGURE, TRAINING_FIGURE, every_figure, every_table

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


_FIGURES = {
    "overview": "A session of four problems, Native and STAIR at T4, and accuracy. (a) T4 follows three earlier problems. "
    "(b) Native reads their history. (c) STAIR also reads a separate bank of attention keys and values, while it processes "
    "the current prompt. (d) Avg@4: Vanilla at T1, the others over T2--T4.",
    "historical_computation": "Computation from earlier problems in replayed histories. (A) The crossed design. "
    "(B) Attention mass on earlier assistant responses, and the displacement of the current problem's state, by layer. "
    "(C) Overlap of nearest problems across histories, with the shuffled control. (D) Native answers that change against "
    "Vanilla.",
    "method": "STAIR in a controlled block. (a) The difference of two bank reads passes through the frozen output path and "
    "is added to the native attention output. (b) The reads differ in the query alone: as it is, and reflected along a "
    "learned direction.",
    "attention": "Attention mass by source category and layer, in the design with three-turn histories and problem coverage.",
    "neighborhood": "Overlap of neighborhoods across histories by their size, in original and in whitened coordinates, with "
    "the shuffled control.",
    "read_prediction": "Historical reads as predictors of the next MLP. (A) Incremental R2 of the earlier-assistant "
    "read, by layer. (B) Additions of equal width at the first measured layer.",
    "training_scope": "Training. (a) The read acts on the current prompt; the loss of the response reaches it through the "
    "prompt. (b) T1 provides history, T2--T4 are supervised; each bank contains the turns before.",
}


def figure_caption(name: str, labels: Labels) -> str:
    """A figure's caption, as plain text with `--` for a dash."""
    if name in _FIGURES:
        return _FIGURES[name]
    if name.startswith(TRAINING_FIGURE):
        model = labels.model(name.removeprefix(TRAINING_FIGURE))
        return f"Training curves of {model}. Pale lines: each update; strong lines: their running mean."
    assert name.startswith(BANK_COST_FIGURE), name
    return f"Prefill time and memory of {labels.model(name.removeprefix(BANK_COST_FIGURE))} against bank length."
