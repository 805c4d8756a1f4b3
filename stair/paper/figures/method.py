"""Figure method: STAIR within a controlled block, and the two reads whose difference it adds."""

from __future__ import annotations

from collections.abc import Sequence

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.paper.controlled import Controlled, of_models, read_controlled
from stair.paper.figures.diagram import BANK, FROZEN, LEARNED, Diagram, count, schematic
from stair.paper.figures.figure import Figure
from stair.paper.figures.style import COLOURS, INK, LINE, RULE, THIN
from stair.paper.labels import Labels

_COLUMNS = {
    "Model": 92.0,
    "Controlled layers": 62.0,
    "Query heads": 44.0,
    "K/V heads": 44.0,
    "Head dim.": 44.0,
    "Output gate": 44.0,
    "Learned parameters": 62.0,
}


def of_run(config: Config, paths: RunPaths) -> Figure:
    """The figure of a run."""
    facts = of_models(config, paths, lambda model, folder: read_controlled(model, folder / "controller.safetensors"))
    return build(facts, Labels.of(config))


def build(models: Sequence[Controlled], labels: Labels) -> Figure:
    """(a) the way of the difference through a block, (b) how the two reads differ; below, each model's sizes."""
    rows = [
        (
            labels.model(each.model),
            ", ".join(map(str, each.layers)),
            *map(count, (each.query_heads, each.kv_heads, each.head_dim)),
            "yes" if each.gated else "no",
            count(each.parameters),
        )
        for each in models
    ]
    numbers = {
        each.model: {
            **{f"controlled layer {number}": layer for number, layer in enumerate(each.layers, 1)},
            "query heads per layer": each.query_heads,
            "K/V heads per layer": each.kv_heads,
            "head dimension": each.head_dim,
            "output gate": int(each.gated),
            "learned parameters": each.parameters,
        }
        for each in models
    }
    return schematic("method", labels, [(132.0, _block), (92.0, _reads)], _COLUMNS, rows, numbers)


def _block(plane: Diagram, base: float) -> tuple[()]:
    """Panel (a): above the native path of a block, below the auxiliary branch."""
    native, branch, around = base + 86, base + 30, base + 108
    plane.title(2, base + 125, "a", "A controlled block, in prefill of the current prompt")
    plane.box(2, native - 11, 42, 22, "block\ninput")
    plane.box(64, native - 11, 84, 22, "native self-attention", fill=FROZEN)
    plane.arrow((44, native), (64, native))
    plane.arrow((148, native), (256.5, native))
    plane.note(204, native + 6, "native output", align="center")
    plane.sign(262, native, "+")
    plane.arrow((267.5, native), (286.5, native))
    plane.arrow((23, native + 11), (23, around), (292, around), (292, native + 5.5), line=THIN)
    plane.note(160, around + 5, "residual", align="center")
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
    plane.note(110, branch + 35.5, "query")
    plane.sign(172, branch, "-")
    plane.arrow((148, branch + 12.5), (172, branch + 12.5), (172, branch + 5.5))
    plane.arrow((148, branch - 12.5), (172, branch - 12.5), (172, branch - 5.5))
    plane.arrow((177.5, branch), (200, branch), colour=COLOURS["stair"])
    plane.text(187, branch + 7, "$\\Delta r$")
    plane.box(200, branch - 10, 32, 20, "gate $g$", fill=FROZEN, dashed=True)
    plane.note(216, branch - 16, "Qwen3.5 only", align="center")
    plane.arrow((232, branch), (248, branch), colour=COLOURS["stair"])
    plane.box(248, branch - 10, 28, 20, "$W_O$", fill=FROZEN)
    plane.note(262, branch - 16, "frozen", align="center")
    plane.arrow((262, branch + 10), (262, native - 5.5), colour=COLOURS["stair"])
    plane.text(267, branch + 30, "$\\Delta o$", align="left")
    meanings = {
        FROZEN: "frozen weights of the model",
        BANK: "fixed states of earlier turns",
        LEARNED: "learned directions",
    }
    for number, (fill, meaning) in enumerate(meanings.items()):
        y = branch + 10 - 12 * number
        plane.box(300, y - 3, 9, 6, fill=fill)
        plane.note(312, y, meaning, colour=INK, room=82)
    return ()


def _reads(plane: Diagram, base: float) -> tuple[()]:
    """Panel (b): one bank, read with the query and with the reflected query."""
    low, middle, high = base + 14, base + 38, base + 62
    plane.title(2, base + 85, "b", "Two reads of one bank")
    plane.box(2, middle - 11, 42, 22, "query\n$q_\\mathrm{norm}$")
    plane.arrow((44, middle), (56, middle))
    plane.box(56, middle - 11, 50, 22, "RoPE at\n$M_t+p$")
    plane.rule((106, middle), (120, middle), colour=INK, line=LINE)
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
    return ()
