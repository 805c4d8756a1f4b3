"""Matrix products on a CPU that give a row the same bits in every batch."""

import warnings

import torch

_ROWS = 16


def rowwise_mm(left, right):
    """`left @ right`, each row of the same bits whatever and however many rows stand beside it.

    A CPU's matrix product takes other paths, and rounds otherwise, for one row than for three. Here it is always of 16 rows.

    Args:
        left: `[rows, inner]`.
        right: `[inner, columns]`.

    Returns:
        `[rows, columns]`.
    """
    rows, inner = left.shape
    found = left.new_empty((-(-rows // _ROWS) * _ROWS, right.shape[1]))
    for start in range(0, rows, _ROWS):
        block = left[start : start + _ROWS]
        if len(block) < _ROWS:
            block = torch.cat([block, left.new_zeros((_ROWS - len(block), inner))])
        # Into a given place it is another operator, which is PyTorch's own still.
        torch.mm(block.contiguous(), right, out=found[start : start + _ROWS])
    return found[:rows]


def rowwise_addmm(bias, left, right, *, beta=1, alpha=1):
    """`beta * bias + alpha * (left @ right)` by `rowwise_mm`."""
    return beta * bias + alpha * rowwise_mm(left, right)


_KERNELS = torch.library.Library("aten", "IMPL")


def make_products_rowwise():
    """From now on this process computes matrix products by `rowwise_mm`; a second call changes nothing."""
    if not getattr(_KERNELS, "installed", False):
        with warnings.catch_warnings():  # that a kernel is replaced
            warnings.simplefilter("ignore", UserWarning)
            _KERNELS.impl("mm", rowwise_mm, "CPU")
            _KERNELS.impl("addmm", rowwise_addmm, "CPU")
        _KERNELS.installed = True
