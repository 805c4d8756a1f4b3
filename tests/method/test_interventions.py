"""The interventions of appendix C.4: fixed random directions, permuted pairs, and what each leaves alone."""

from __future__ import annotations

import torch
from method_cases import LAYERS, random_bank
from torch import Tensor

from stair.method import Reflector, differential_read, permuted_order, random_reflector

CPU = torch.device("cpu")


def test_pairings_differ_by_seed_layer_and_head_and_are_functions_of_them() -> None:
    order = permuted_order(5, 3, 2, 50, CPU)
    assert torch.equal(order.sort(-1).values, torch.arange(50).expand(2, 50))
    assert torch.equal(order, permuted_order(5, 3, 2, 50, CPU))
    others = [order[0], order[1], permuted_order(5, 11, 2, 50, CPU)[0], permuted_order(6, 3, 2, 50, CPU)[0]]
    assert len({tuple(other.tolist()) for other in others}) == 4


def test_a_pairing_is_pinned() -> None:
    """A change of the order would change every response of the control."""
    assert permuted_order(7, 3, 2, 8, CPU).tolist() == [[4, 0, 6, 7, 1, 2, 5, 3], [0, 6, 1, 3, 5, 4, 2, 7]]


def test_a_permutation_moves_values_within_a_head_and_is_undone_by_its_inverse() -> None:
    """One order serves all query heads of a K/V head; keys stay where they are."""
    generator = torch.Generator().manual_seed(0)
    queries = torch.randn(1, 4, 5, 16, generator=generator, dtype=torch.float64)
    keys, values = (torch.randn(1, 2, 30, 16, generator=generator, dtype=torch.float64) for _ in range(2))
    normals = random_reflector([3], 4, 16, 1).normals[0].detach().double()
    order = permuted_order(5, 3, 2, 30, CPU)[None]
    places = order[..., None].expand_as(values)
    permuted = values.gather(2, places)
    assert torch.equal(permuted.sort(2).values, values.sort(2).values)

    def read(values: Tensor, value_order: Tensor | None = None) -> Tensor:
        return differential_read(queries, keys, values, normals, value_order=value_order, backend="naive")

    torch.testing.assert_close(read(values, order), read(permuted))
    assert (read(values, order) - read(values)).abs().max() > 1e-6
    torch.testing.assert_close(read(permuted, order.argsort(-1)), read(values))


def test_random_directions_are_unit_and_fixed_by_seed_layer_and_head() -> None:
    drawn = random_reflector(LAYERS, 4, 16, 1)
    assert drawn.layers == tuple(LAYERS)
    assert drawn.normals.shape == (len(LAYERS), 4, 16)
    torch.testing.assert_close(drawn.normals.norm(dim=-1), torch.ones(len(LAYERS), 4))
    assert drawn.digest == random_reflector(LAYERS, 4, 16, 1).digest != random_reflector(LAYERS, 4, 16, 2).digest
    directions = drawn.normals.flatten(0, 1)
    off_diagonal = (directions @ directions.mT).abs() - torch.eye(len(directions))
    assert off_diagonal.max() < 0.99, "two heads have one direction"
    # A layer's directions do not depend on which other layers are controlled.
    assert torch.equal(random_reflector(LAYERS[:1], 4, 16, 1).normals[0], drawn.normals[0])


def test_a_random_reflector_reads_the_bank_by_its_directions() -> None:
    """Scaling the normals changes nothing, so unit directions are directions alone."""
    bank = random_bank(9)
    keys, values = (states[:1].double() for states in (bank.segments[0].keys, bank.segments[0].values))
    queries = torch.randn(1, 4, 3, 16, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    drawn = random_reflector(LAYERS, 4, 16, 1)
    scaled = Reflector(LAYERS, drawn.normals * 3.0)
    reads = [differential_read(queries, keys, values, each.normals[0].double()) for each in (drawn, scaled)]
    assert reads[0].abs().max() > 0
    torch.testing.assert_close(reads[0], reads[1], rtol=1e-5, atol=1e-7)
