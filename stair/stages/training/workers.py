"""Data parallelism over sessions: every worker processes its share of an update, gradients are summed (torchrun)."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import NoReturn, TypeVar

import torch
from torch import Tensor

from stair.models.device_and_dtype import resolved_device

Item = TypeVar("Item")

_PATIENCE = timedelta(hours=6)
"""The time that a worker waits for another: sessions of an update can differ by a hundred thousand tokens."""


@dataclass(frozen=True)
class Workers:
    """The processes of one training, and the rank of this one."""

    rank: int = 0
    count: int = 1

    @classmethod
    @contextmanager
    def joined(cls, device: str) -> Iterator[Workers]:
        """Joins the workers of `torchrun` (gloo, or NCCL on GPUs); one worker without it."""
        count = int(os.environ.get("WORLD_SIZE", "1"))
        if count == 1:
            yield cls()
            return
        import torch.distributed as dist

        on_gpu = device.startswith("cuda")
        if on_gpu:
            torch.cuda.set_device(device)  # Triton launches its kernels on the current device, wherever the tensors are
        dist.init_process_group("nccl" if on_gpu else "gloo", timeout=_PATIENCE)
        try:
            yield cls(dist.get_rank(), count)
        finally:
            dist.destroy_process_group()

    @property
    def first(self) -> bool:
        """Whether this worker writes files."""
        return self.rank == 0

    def total(self, tensor: Tensor) -> Tensor:
        """The sum over all workers, the same bits in each."""
        if self.count > 1:
            import torch.distributed as dist

            dist.all_reduce(tensor)
        return tensor

    def wait(self) -> None:
        if self.count > 1:
            self.total(torch.tensor(0, device=_device()))

    def share(self, items: Sequence[Item], cost: Callable[[Item], float]) -> list[Item]:
        """This worker's items. Each item, the most costly first, goes to the worker with the least load."""
        if self.count == 1:
            return list(items)
        loads = [0.0] * self.count
        owner: dict[int, int] = {}
        for index in sorted(range(len(items)), key=lambda index: (-cost(items[index]), index)):
            owner[index] = loads.index(min(loads))
            loads[owner[index]] += cost(items[index])
        return [item for index, item in enumerate(items) if owner[index] == self.rank]


def become_workers(count: int) -> NoReturn:
    """Replaces this process by workers of the same command, which find each other, each with a GPU of its own."""
    os.environ.pop("STAIR_WARM_SOCKET", None)  # the warm process would run them as one
    programs = Path(sys.executable).parent
    launcher = ["torchrun", "--standalone", "--no-python", "--nproc-per-node", str(count), "--"]
    os.execv(programs / "torchrun", [*launcher, str(programs / "stair"), *sys.argv[1:]])


def local_device(device: str) -> str:
    """The device of this worker: `auto` is a GPU if there is one; each worker of a machine has its own."""
    device = resolved_device(device)
    return f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if device == "cuda" else device


def _device() -> str:
    import torch.distributed as dist

    return "cpu" if dist.get_backend() == "gloo" else local_device("cuda")
