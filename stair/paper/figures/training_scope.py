"""Figure training_scope: where the bank is read in training, what is supervised, and how banks grow."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from stair.core import TURNS
from stair.paper.controllers import of_models, read_controlled
from stair.paper.figures.diagram import (
    BANK,
    CURRENT,
    FROZEN,
    LEARNED,
    PLAIN,
    Diagram,
    around,
    cell,
    corner,
    count,
    schematic,
)
from stair.paper.figures.figure import Figure
from stair.paper.figures.style import INK, THICK, THIN, TINY
from stair.paper.figures.training import read_curve
from stair.paper.source import Source
from stair.sessions.renderer import control_span
from stair.statistics.values import Value

_HEADER = 1
"""Stands for the ids of `<|im_start|>user`."""


Trained = tuple[str, dict[str, int]]
"""A model, and the totals of its training of STAIR by metric."""


def read_trained(model: str, folder: Path) -> Trained:
    """The totals of a training curve, and the size of the controller that it ended with."""
    curve = read_curve(folder / "curve.csv")
    sums = {key: int(sum(line.get(key, 0.0) for line in curve)) for key in ("sessions", "responses", "tokens")}
    return model, {
        "updates": int(max(line["update"] for line in curve)),
        "training sessions": sums["sessions"],
        "supervised responses": sums["responses"],
        "supervised tokens": sums["tokens"],
        "learned parameters": read_controlled(model, folder).parameters,
    }


def build(source: Source) -> Figure:
    """(a) the tokens of a supervised turn, (b) the turns of a session; below, what each model was trained on."""
    models = of_models(source.config, source.paths, read_trained)
    head = ("Model", "Updates", "Sessions", "Supervised responses", "Supervised tokens", "Learned parameters")
    rows = [(source.labels.model(model), *map(count, numbers.values())) for model, numbers in models]
    return schematic(source, [(108.0, _spans), (98.0, _banks)], [head, *rows], dict(models))


def _spans(plane: Diagram) -> Iterator[Value]:
    """Panel (a): one token sequence; the control span is where `control_span` says."""
    prompt = {
        "earlier turns": (88.0, (_HEADER, 2)),
        "user header": (54.0, (_HEADER,)),
        "problem": (54.0, (3,)),
        "assistant prefix": (62.0, (4,)),
    }
    ids = [token for _, tokens in prompt.values() for token in tokens]
    start, end = control_span(ids, (_HEADER,))
    left, tokens, branch, loss = 58.0, 52.0, 32.0, 13.0
    plane.title("a", "A supervised turn")
    for y, name in ((tokens, "tokens"), (branch, "bank read"), (loss, "loss")):
        plane.note(2, y, name, colour=INK, room=left - 6)
    position, controlled, cells = 0, [], []
    for name, (width, segment) in prompt.items():
        controlled.append(start <= position < end)
        cells.append(cell(name, width, fill=CURRENT if controlled[-1] else PLAIN))
        position += len(segment)
    *boxes, response = plane.row(left, tokens, *cells, cell("response (teacher-forced)", 78, dashed=True))
    for name, on in (*zip(prompt, controlled, strict=True), ("response", False)):
        yield Value("", "", "stair", "", name, "auxiliary branch", int(on), "")
        yield Value("", "", "stair", "", name, "supervised", int(name == "response"), "")
    spans = [
        (on, around([box for _, box in group]))
        for on, group in groupby(zip([*controlled, False], [*boxes, response], strict=True), key=itemgetter(0))
    ]
    acting = [
        plane.box(span.x, branch - 7, span.width, 14, "on" if on else "off", fill=LEARNED if on else PLAIN)
        for on, span in spans
    ]
    prefix = acting[next(number for number, (on, _) in enumerate(spans) if on)]
    objective = plane.box(response.x, loss - 7, response.width, 14, "CE + KL on every token", fill=FROZEN)
    middle = prefix.middle[0]
    plane.arrow(objective, corner(objective, prefix), prefix, colour=LEARNED, dashed=True)
    plane.note((middle + objective.x) / 2 + 2, loss - 6, "gradient into the prefix", colour=LEARNED, align="center")
    plane.note(left + 2, loss, "history: no loss, no gradient", room=92)
    bank = plane.box(middle - 46, tokens + 22, 92, 15, "bank $\\mathcal{B}_t$ (detached)", fill=BANK)
    plane.arrow(bank, (middle, tokens + 8), text="read", line=THICK, colour=LEARNED)


def _banks(plane: Diagram) -> Iterator[Value]:
    """Panel (b): each turn reads the bank of the turns before it, and gives its states to the next bank."""
    turns, banks, left, step = 65.0, 21.0, 58.0, 88.0
    plane.title("b", "A training session")
    plane.note(2, turns, "turn", colour=INK)
    plane.note(2, banks, "bank it reads", colour=INK)
    for turn in range(1, TURNS + 1):
        x, supervised = left + (turn - 1) * step, turn > 1
        role = "supervised" if supervised else "history only"
        box = plane.box(x, turns - 13, 72, 26, f"T{turn}\n{role}", fill=CURRENT if supervised else PLAIN)
        yield Value("", "", "stair", f"T{turn}", "", "supervised", int(supervised), "")
        yield Value("", "", "stair", f"T{turn}", "", "turns in the bank", turn - 1, "")
        styles = [{"line": THIN}] * (turn - 2) + [{"line": THICK, "bold": True}]
        entries = [
            cell(f"T{earlier}", 48 / (TURNS - 1), 14, fill=BANK, size=TINY, **style)
            for earlier, style in zip(range(1, turn), styles, strict=False)
        ]
        if supervised:
            bank = around(plane.row(x, banks, *entries))
            plane.arrow(bank, box, colour=LEARNED)
            plane.text(bank.middle[0], bank.y - 7, f"$\\mathcal{{B}}_{turn}$")
        else:
            plane.note(x + 24, banks, "empty", align="center")
        if turn < TURNS:
            down = x + 62
            plane.arrow(box, (down, banks), (x + step, banks), dashed=True)
            plane.note(down - 4, box.y - 9, "appended" if supervised else "captured,\ndetached", align="right")
