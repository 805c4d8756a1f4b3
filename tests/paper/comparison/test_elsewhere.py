"""A number that a run lacks is named with the layers, sizes or banks at which the run has it."""

from __future__ import annotations

from stair.paper.comparison.ours import elsewhere
from stair.paper.comparison.printed import PrintedPlace

OVERLAP = "neighborhood overlap, interaction response, k={}, layer {}"


def place(metric: str, artifact: str = "fig:x", condition: str = "", group: str = "group 1") -> PrintedPlace:
    return PrintedPlace(artifact, "A model", "", condition, "", group, metric, "%")


def test_layers_and_sizes() -> None:
    ours = [place(OVERLAP.format(k, layer)) for k in (2, 4, 8) for layer in range(12)]
    assert elsewhere(place(OVERLAP.format(8, 19)), ours) == "; it has this number at k=2, 4, 8 and layers 0 to 11"
    assert elsewhere(place(OVERLAP.format(8, 19)), ours[7:8]) == "; it has this number at k=2 and layer 7"
    assert elsewhere(place("energy, layer 19"), [place("energy, layer 3"), place("energy, layer 7")]) == (
        "; it has this number at layers 3, 7"
    )


def test_other_groups_models_and_metrics_do_not_count() -> None:
    wanted = place("energy, layer 19")
    assert elsewhere(wanted, [place("mass, layer 3"), place("energy, layer 3", group="group 2")]) == ""
    assert elsewhere(wanted, [place("energy, layer 3")._replace(model="Another")]) == ""
    assert elsewhere(place("energy"), [place("energy, layer 3")]) == ""


def test_banks_of_the_runtime_table() -> None:
    ours = [place("prefill", "tab:bank-runtime", bank) for bank in ("Native", "7", "12", "Full")]
    assert elsewhere(place("prefill", "tab:bank-runtime", "2K"), ours) == "; it has this number for Native, 7, 12, Full"
    assert elsewhere(place("decode", "tab:bank-runtime", "2K"), ours) == ""
