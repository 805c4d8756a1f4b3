"""Figure method: STAIR within a controlled block, and the two reads whose difference it adds."""

from __future__ import annotations

from stair.paper.controllers import of_models, read_controlled
from stair.paper.figures.diagram import BANK, FROZEN, LEARNED, Diagram, cell, corner, count, schematic
from stair.paper.figures.figure import Figure
from stair.paper.figures.style import COLOURS, RULE, THIN, TINY
from stair.paper.source import Source


def build(source: Source) -> Figure:
    """(a) the way of the difference through a block, (b) how the two reads differ; below, each model's sizes."""
    models = of_models(source.config, source.paths, read_controlled)
    head = ("Model", "Controlled layers", "Query heads", "K/V heads", "Head dim.", "Output gate", "Learned parameters")
    rows = [
        (
            source.labels.model(each.model),
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
    return schematic(source, [(132.0, _block), (92.0, _reads)], [head, *rows], numbers)


def _block(plane: Diagram) -> tuple[()]:
    """Panel (a): above the native path of a block, below the auxiliary branch."""
    native, branch, green = 86.0, 30.0, COLOURS["stair"]
    plane.title("a", "A controlled block, in prefill of the current prompt")
    entry, attention = cell("block\ninput", 42, 22), cell("native self-attention", 84, 22, fill=FROZEN)
    mlp, end = cell("MLP", 34, 22, fill=FROZEN), cell("block\noutput", 32, 22)
    start, query, sum_, residual, *_ = plane.row(
        *(2, native, entry, 20, attention, (108.5, "native output"), "+", 19, "+", 16.5, mlp, 14, end)
    )
    over = native + 22
    plane.arrow(start, (start.middle[0], over), (residual.middle[0], over), residual, text="residual", line=THIN)

    bank = plane.box(2, branch - 22, 42, 44, "K/V bank\n$\\mathcal{B}_t$\n(fixed)", fill=BANK)
    reads = plane.box(58, branch - 26, 96, 52, edge=RULE, dashed=True)
    plane.arrow(query, reads, text="query")
    gate, output = cell("gate $g$", 32, 20, fill=FROZEN, dashed=True), cell("$W_O$", 28, 20, fill=FROZEN)
    minus, gated, frozen = plane.row(166.5, branch, "-", (22.5, "$\\Delta r$"), gate, 16, output, colour=green)
    for y, name in ((branch + 12.5, "reflected read $r^R$"), (branch - 12.5, "reference read $r^\\mathrm{ref}$")):
        (read,) = plane.row(64, y, cell(name, 84, 17))
        plane.arrow(bank, read)
        plane.arrow(read, corner(read, minus), minus)
    plane.arrow(frozen, sum_, text="$\\Delta o$", colour=green)
    plane.below(gated, "Qwen3.5 only")
    plane.below(frozen, "frozen")
    meanings = {
        FROZEN: "frozen weights of the model",
        BANK: "fixed states of earlier turns",
        LEARNED: "learned directions",
    }
    for number, (fill, meaning) in enumerate(meanings.items()):
        plane.key(300, branch + 10 - 12 * number, fill, meaning, size=TINY, room=82)
    return ()


def _reads(plane: Diagram) -> tuple[()]:
    """Panel (b): one bank, read with the query and with the reflected query."""
    low, middle, high = 14.0, 38.0, 62.0
    plane.title("b", "Two reads of one bank")
    _, rope = plane.row(*(2, middle, cell("query\n$q_\\mathrm{norm}$", 42, 22), 12, cell("RoPE at\n$M_t+p$", 50, 22)))
    bank = plane.box(
        134, middle - 9, 182, 18, "bank $\\mathcal{B}_t$: keys with RoPE at $0,\\ldots,M_t-1$; values", fill=BANK
    )
    reflection = cell("reflection  $\\tilde{q}-2u(u^\\top\\tilde{q})$", 102, 20, fill=LEARNED)
    reflected, above = plane.row(134, high, reflection, (26, "$\\tilde{q}^R$"), cell("read", 54))
    (below,) = plane.row(262, low, cell("read", 54))
    branch = rope.x + rope.width + 14
    plane.arrow(rope, (branch, middle), (branch, high), reflected)
    plane.arrow(rope, (branch, middle), (branch, low), below, text="$\\tilde{q}$")
    minus = plane.sign(346, middle, "-")
    for read, name, y in ((above, "$r^R$", high + 7), (below, "$r^\\mathrm{ref}$", low - 8)):
        plane.arrow(bank, read)
        plane.arrow(read, corner(read, minus), minus)
        plane.text(332, y, name)
    plane.arrow(minus, (372, middle), colour=COLOURS["stair"])
    plane.text(382, middle, "$\\Delta r$")
    return ()
