"""Where a run has a number of the paper at another layer, neighborhood size or bank length than the paper prints."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from stair.paper import paper_labels
from stair.paper.comparison.printed import Place

_SIZE = re.compile(r"\b(layer |k=)(\d+)")


def elsewhere(place: Place, numbers: Iterable[Place]) -> str:
    """The layers, sizes or banks at which a run has a number, as the end of a reason; empty where it has none.

    Args:
        place: the number that the run lacks; of it the artifact, model, group and metric count.
        numbers: the places of the run's numbers, in the paper's spelling.
    """
    other = [each for each in numbers if (each.model, each.group) == (place.model, place.group)]
    if place.artifact == paper_labels.BANK_RUNTIME:
        same = [each for each in other if (each.artifact, each.metric) == (place.artifact, place.metric)]
        found = dict.fromkeys(each.condition for each in same)
        return f"; it has this number for {', '.join(found)}" if found else ""
    if not _SIZE.search(place.metric):
        return ""
    wanted = _SIZE.sub(r"\1#", place.metric)
    sizes: dict[str, set[int]] = {}
    for each in other:
        if _SIZE.sub(r"\1#", each.metric) == wanted:
            for name, size in _SIZE.findall(each.metric):
                sizes.setdefault(name, set()).add(int(size))
    listed = " and ".join(_listed(name, sorted(found)) for name, found in sizes.items())
    return f"; it has this number at {listed}" if listed else ""


def _listed(name: str, sizes: Sequence[int]) -> str:
    """`layer 7`, `layers 0 to 11`, `k=2, 4, 8`."""
    plural = name.replace("layer ", "layers ") if len(sizes) > 1 else name
    if len(sizes) > 3 and sizes[-1] - sizes[0] == len(sizes) - 1:
        return f"{plural}{sizes[0]} to {sizes[-1]}"
    return f"{plural}{', '.join(map(str, sizes))}"
