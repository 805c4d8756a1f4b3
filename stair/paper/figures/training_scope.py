"""Figure training_scope: where the auxiliary branch acts in training, what is supervised, and how banks grow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.core import TURNS
from stair.paper.controlled import of_models, read_controlled
from stair.paper.figures.diagram import BANK, CURRENT, FROZEN, LEARNED, PLAIN, Diagram, count, schematic
from stair.paper.figures.figure import Figure
from stair.paper.figures.style import INK, THICK, THIN, TINY
from stair.paper.figures.training import read_curve
from stair.paper.labels import Labels
from stair.paper.table_inputs import TRAINING_SCOPE
from stair.sessions.spans import control_span
from stair.statistics.values import Value

_COLUMNS = {
    "Model": 92.0,
    "Updates": 44.0,
    "Sessions": 44.0,
    "Supervised responses": 72.0,
    "Supervised tokens": 70.0,
    "Learned parameters": 70.0,
}
_HEADER = 1
"""Stands for the ids of `<|im_start|>user`."""


@dataclass(frozen=True)
class Trained:
    """A model's training of STAIR."""

    model: str
    updates: int
    sessions: int
    responses: int
    """Supervised responses."""
    tokens: int
    """Tokens of supervised responses."""
    parameters: int


def read_trained(model: str, folder: Path) -> Trained:
    """The totals of a training curve, and the size of the controller that it ended with."""
    curve = read_curve(folder / "curve.csv")
    sums = {key: int(sum(line.get(key, 0.0) for line in curve)) for key in ("sessions", "responses", "tokens")}
    controller = read_controlled(model, folder / "controller.safetensors")
    return Trained(model, int(max(line["update"] for line in curve)), **sums, parameters=controller.parameters)


def of_run(config: Config, paths: RunPaths) -> Figure:
    """The figure of a run."""
    return build(of_models(config, paths, read_trained), Labels.of(config))


def build(models: Sequence[Trained], labels: Labels) -> Figure:
    """(a) the tokens of a supervised turn, (b) the turns of a session; below, what each model was trained on."""
    numbers = {
        each.model: {
            "updates": each.updates,
            "training sessions": each.sessions,
            "supervised responses": each.responses,
            "supervised tokens": each.tokens,
            "learned parameters": each.parameters,
        }
        for each in models
    }
    rows = [(labels.model(model), *map(count, of_model.values())) for model, of_model in numbers.items()]
    return schematic(TRAINING_SCOPE, labels, [(108.0, _spans), (98.0, _banks)], _COLUMNS, rows, numbers)


def _spans(plane: Diagram, base: float) -> Iterator[Value]:
    """Panel (a): one token sequence; the control span is where `control_span` says."""
    prompt = (
        ("earlier turns", 88.0, (_HEADER, 2)),
        ("user header", 54.0, (_HEADER,)),
        ("problem", 54.0, (3,)),
        ("assistant prefix", 62.0, (4,)),
    )
    ids = [token for _, _, tokens in prompt for token in tokens]
    start, end = control_span(ids, (_HEADER,))
    left, x, position = 58.0, 58.0, 0
    tokens, branch, loss = base + 44, base + 25, base + 6
    plane.title(2, base + 101, "a", "A supervised turn")
    for y, name in ((tokens + 8, "tokens"), (branch + 7, "auxiliary branch"), (loss + 7, "loss")):
        plane.note(2, y, name, colour=INK, room=left - 6)
    spans: list[tuple[bool, float, float]] = []
    for name, width, segment in prompt:
        on = start <= position < end
        plane.box(x, tokens, width, 16, name, fill=CURRENT if on else PLAIN, line=THIN)
        yield Value("", "", "stair", "", name, "auxiliary branch", int(on), "")
        yield Value("", "", "stair", "", name, "supervised", 0, "")
        if spans and spans[-1][0] == on:
            spans[-1] = (on, spans[-1][1], x + width)
        else:
            spans.append((on, x, x + width))
        x, position = x + width, position + len(segment)
    response = 394 - x
    plane.box(x, tokens, response, 16, "response (teacher-forced)", dashed=True)
    yield Value("", "", "stair", "", "response", "auxiliary branch", 0, "")
    yield Value("", "", "stair", "", "response", "supervised", 1, "")
    for on, first, last in (*spans, (False, x, x + response)):
        plane.box(first, branch, last - first, 14, "on" if on else "off", fill=LEARNED if on else PLAIN)
    plane.box(x, loss, response, 14, "CE + KL on every token", fill=FROZEN)
    _, first, last = next(span for span in spans if span[0])
    middle = (first + last) / 2
    plane.arrow((x, loss + 7), (middle, loss + 7), (middle, branch), colour=LEARNED, dashed=True)
    plane.note((middle + x) / 2 + 2, loss + 1, "gradient into the prefix", colour=LEARNED, align="center")
    plane.note(left + 2, loss + 7, "history: no loss, no gradient", room=92)
    plane.box(middle - 46, tokens + 30, 92, 15, "bank $\\mathcal{B}_t$ (detached)", fill=BANK)
    plane.arrow((middle, tokens + 30), (middle, tokens + 16), line=THICK, colour=LEARNED)
    plane.note(middle + 5, tokens + 23.5, "read", colour=LEARNED)


def _banks(plane: Diagram, base: float) -> Iterator[Value]:
    """Panel (b): each turn reads the bank of the turns before it, and gives its states to the next bank."""
    turns, banks, left, step, width = base + 52, base + 14, 58.0, 88.0, 72.0
    cell = 48.0 / (TURNS - 1)
    plane.title(2, base + 91, "b", "A training session")
    plane.note(2, turns + 13, "replayed turn", colour=INK)
    plane.note(2, banks + 7, "bank it reads", colour=INK)
    for turn in range(1, TURNS + 1):
        x, supervised = left + (turn - 1) * step, turn > 1
        role = "supervised" if supervised else "history only"
        plane.box(x, turns, width, 26, f"T{turn}\n{role}", fill=CURRENT if supervised else PLAIN)
        yield Value("", "", "stair", f"T{turn}", "", "supervised", int(supervised), "")
        yield Value("", "", "stair", f"T{turn}", "", "turns in the bank", turn - 1, "")
        if not supervised:
            plane.note(x + 24, banks + 7, "empty", align="center")
        for earlier in range(1, turn):
            newest = earlier == turn - 1
            plane.box(
                *(x + (earlier - 1) * cell, banks, cell, 14, f"T{earlier}"),
                fill=BANK,
                size=TINY,
                bold=newest,
                line=THICK if newest else THIN,
            )
        if supervised:
            reads = x + (turn - 1) * cell / 2
            plane.arrow((reads, banks + 14), (reads, turns), colour=LEARNED)
            plane.text(x + (turn - 1) * cell / 2, banks - 7, f"$\\mathcal{{B}}_{turn}$")
        if turn < TURNS:
            down = x + 62
            plane.arrow((down, turns), (down, banks + 7), (x + step, banks + 7), dashed=True)
            what = ("captured,\ndetached", "appended")[turn > 1]
            plane.note(down - 4, turns - 9, what, align="right")
