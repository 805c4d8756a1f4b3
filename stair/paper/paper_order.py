"""The tables and figures of a run in the paper's order, those that the paper does not have, and captions of figures."""

from __future__ import annotations

from typing import Literal, NamedTuple

from stair.config.model import Config
from stair.paper.labels import Labels
from stair.paper.paper_labels import ARTIFACTS
from stair.paper.table_inputs import BANK_COST_FIGURE, TRAINING_FIGURE, every_figure, every_table


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
    order = list(ARTIFACTS)
    # A table of another model than the paper's comes after those of the paper's models.
    models = [name for name in tables if name not in order and name.startswith(("history_", "turns_"))]
    ranks = {name: order.index(f"{name.partition('_')[0]}_qwen3.5-9b") for name in models}
    ranks |= {name: rank for rank, name in enumerate(order)}
    every: list[Shown] = [Shown("table", name, name in ranks) for name in tables]
    every += [Shown("figure", name, name in ranks) for name in figures]
    return sorted(every, key=lambda each: ranks.get(each.name, len(order)))


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
    """A figure's caption, as plain text with `--` for a dash. Raises ValueError for a figure without one."""
    if name in _FIGURES:
        return _FIGURES[name]
    if name.startswith(TRAINING_FIGURE):
        model = labels.model(name.removeprefix(TRAINING_FIGURE))
        return f"Training curves of {model}. Pale lines: each update; strong lines: their running mean."
    if not name.startswith(BANK_COST_FIGURE):
        raise ValueError(f"the figure {name} has no caption; add one to _FIGURES in stair/paper/paper_order.py")
    return f"Prefill time and memory of {labels.model(name.removeprefix(BANK_COST_FIGURE))} against bank length."
