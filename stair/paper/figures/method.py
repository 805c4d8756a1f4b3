"""Figure method: STAIR within a controlled block, and the two reads whose difference it adds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.paper import paper_labels
from stair.paper.controlled import Controlled, of_models, read_controlled
from stair.paper.figures.diagram import BANK, FROZEN, LEARNED, Diagram, count, table_row
from stair.paper.figures.figure import Figure
from stair.paper.figures.style import COLOURS, MUTED, RULE, TEXT_WIDTH, THIN, TINY, Foot, styled
from stair.paper.labels import Labels
from stair.statistics.values import Value

_BLOCK, _READS = 132.0, 92.0
"""Points of the two panels' heights."""


def of_run(config: Config, paths: RunPaths) -> Figure:
    """The figure of a run."""
    facts = of_models(config, paths, lambda model, folder: read_controlled(model, folder / "controller.safetensors"))
    return build(facts, Labels.of(config))


def build(models: Sequence[Controlled], labels: Labels) -> Figure:
    """(a) the way of the difference through a block, (b) how the two reads differ; below, each model's sizes."""
    foot = Foot(labels.notes)
    table = table_row() * (len(models) + 1) + 6
    points = _BLOCK + _READS + table
    height = points / 72 + foot.height
    with styled() as pyplot:
        drawing = pyplot.figure(figsize=(TEXT_WIDTH, height))
        plane = Diagram(drawing, foot.height * 72, points)
        _block(plane, _READS + table)
        _reads(plane, table)
        header = (
            "Model",
            "Controlled layers",
            "Query heads",
            "K/V heads",
            "Head dim.",
            "Output gate",
            "Learned parameters",
        )
        rows = [
            (
                labels.model(each.model),
                ", ".join(map(str, each.layers)),
                *(count(number) for number in (each.query_heads, each.kv_heads, each.head_dim)),
                "yes" if each.gated else "no",
                count(each.parameters),
            )
            for each in models
        ]
        plane.table(2, table - 2, (92, 62, 44, 44, 44, 44, 62), [header, *rows])
        foot.draw(drawing)
        pyplot.close(drawing)
    return Figure("method", paper_labels.METHOD, tuple(_values(models)), drawing)


def _values(models: Sequence[Controlled]) -> Iterator[Value]:
    for each in models:
        numbers = {
            **{f"controlled layer {number}": layer for number, layer in enumerate(each.layers, 1)},
            "query heads per layer": each.query_heads,
            "K/V heads per layer": each.kv_heads,
            "head dimension": each.head_dim,
            "output gate": int(each.gated),
            "learned parameters": each.parameters,
        }
        yield from (Value(each.model, "", "stair", "", "", metric, number, "") for metric, number in numbers.items())


def _block(plane: Diagram, base: float) -> None:
    """Panel (a): above the native path of a block, below the auxiliary branch."""
    native, branch, around = base + 86, base + 30, base + 108
    plane.title(2, base + _BLOCK - 7, "a", "A controlled block, in prefill of the current prompt")
    plane.box(2, native - 11, 42, 22, "block\ninput")
    plane.box(64, native - 11, 84, 22, "native self-attention", fill=FROZEN)
    plane.arrow((44, native), (64, native))
    plane.arrow((148, native), (256.5, native))
    plane.text(204, native + 6, "native output", size=TINY, colour=MUTED)
    plane.sign(262, native, "+")
    plane.arrow((267.5, native), (286.5, native))
    plane.arrow((23, native + 11), (23, around), (292, around), (292, native + 5.5), line=THIN)
    plane.text(160, around + 5, "residual", size=TINY, colour=MUTED)
    plane.sign(292, native, "+")
    plane.arrow((297.5, native), (314, native))
    plane.box(314, native - 11, 34, 22, "MLP", fill=FROZEN)
    plane.arrow((348, native), (362, native))
    plane.box(362, native - 11, 32, 22, "block\noutput")

    plane.box(2, branch - 22, 42, 44, "K/V bank\n$\\mathcal{B}_t$\n(fixed)", fill=BANK)
    plane.box(58, branch - 26, 96, 52, edge=RULE, dashed=True)
    for y, name in ((branch + 4, "reflected read $r^R$"), (branch - 21, "reference read $r^\\mathrm{ref}$")):
        plane.box(64, y, 84, 17, name)
        plane.arrow((44, y + 8.5), (64, y + 8.5))
    plane.arrow((106, native - 11), (106, branch + 26))
    plane.text(110, branch + 35.5, "query", size=TINY, colour=MUTED, align="left")
    plane.sign(172, branch, "-")
    plane.arrow((148, branch + 12.5), (172, branch + 12.5), (172, branch + 5.5))
    plane.arrow((148, branch - 12.5), (172, branch - 12.5), (172, branch - 5.5))
    plane.arrow((177.5, branch), (200, branch), colour=COLOURS["stair"])
    plane.text(187, branch + 7, "$\\Delta r$")
    plane.box(200, branch - 10, 32, 20, "gate $g$", fill=FROZEN, dashed=True)
    plane.text(216, branch - 16, "Qwen3.5 only", size=TINY, colour=MUTED)
    plane.arrow((232, branch), (248, branch), colour=COLOURS["stair"])
    plane.box(248, branch - 10, 28, 20, "$W_O$", fill=FROZEN)
    plane.text(262, branch - 16, "frozen", size=TINY, colour=MUTED)
    plane.arrow((262, branch + 10), (262, native - 5.5), colour=COLOURS["stair"])
    plane.text(267, branch + 30, "$\\Delta o$", align="left")
    for number, (fill, meaning) in enumerate(
        (
            (FROZEN, "frozen weights of the model"),
            (BANK, "fixed states of earlier turns"),
            (LEARNED, "learned directions"),
        )
    ):
        y = branch + 10 - 12 * number
        plane.box(300, y - 3, 9, 6, fill=fill)
        plane.text(312, y, meaning, size=TINY, align="left", room=82)


def _reads(plane: Diagram, base: float) -> None:
    """Panel (b): one bank, read with the query and with the reflected query."""
    low, middle, high = base + 14, base + 38, base + 62
    plane.title(2, base + _READS - 7, "b", "Two reads of one bank")
    plane.box(2, middle - 11, 42, 22, "query\n$q_\\mathrm{norm}$")
    plane.arrow((44, middle), (56, middle))
    plane.box(56, middle - 11, 50, 22, "RoPE at\n$M_t+p$")
    plane.rule((106, middle), (120, middle), colour="#1a1a1a", line=1.0)
    plane.arrow((120, middle), (120, high), (134, high))
    plane.arrow((120, middle), (120, low), (262, low))
    plane.text(128, low + 6, "$\\tilde{q}$")
    plane.box(134, high - 10, 102, 20, "reflection  $\\tilde{q}-2u(u^\\top\\tilde{q})$", fill=LEARNED)
    plane.arrow((236, high), (262, high))
    plane.text(248, high + 7, "$\\tilde{q}^R$")
    for y in (low, high):
        plane.box(262, y - 8, 54, 16, "read")
    plane.box(134, middle - 9, 182, 18, "bank $\\mathcal{B}_t$: keys with RoPE at $0,\\ldots,M_t-1$; values", fill=BANK)
    plane.arrow((289, middle + 9), (289, high - 8))
    plane.arrow((289, middle - 9), (289, low + 8))
    plane.sign(346, middle, "-")
    plane.arrow((316, high), (346, high), (346, middle + 5.5))
    plane.arrow((316, low), (346, low), (346, middle - 5.5))
    plane.text(332, high + 7, "$r^R$")
    plane.text(332, low - 8, "$r^\\mathrm{ref}$")
    plane.arrow((351.5, middle), (372, middle), colour=COLOURS["stair"])
    plane.text(382, middle, "$\\Delta r$")
