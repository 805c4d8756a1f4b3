"""The schedule of an adapter, workers' shares, and TensorBoard's event file."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
import torch
from transformers import get_cosine_schedule_with_warmup

from stair.training.curve import EventFile
from stair.training.loop import UpdateRecord
from stair.training.optimizers import schedule
from stair.training.workers import Workers


@pytest.mark.parametrize(("warmup", "updates"), [(56, 1851), (2, 17), (0, 5), (1, 2)])
def test_the_schedule_is_the_usual_one(warmup: int, updates: int) -> None:
    adam = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=2e-4)
    usual = get_cosine_schedule_with_warmup(adam, warmup, updates)
    for update in range(updates):
        assert 2e-4 * schedule(update, warmup, updates) == pytest.approx(usual.get_last_lr()[0], rel=1e-12, abs=1e-18)
        adam.step()
        usual.step()
    assert schedule(warmup, warmup, updates) == 1.0
    assert schedule(updates, warmup, updates) == 0.0


def test_shares_are_whole_and_balanced() -> None:
    costs = [9.0, 1.0, 2.0, 8.0, 3.0, 7.0, 1.0, 5.0]
    shares = [Workers(rank, 3).share(list(range(8)), lambda item: costs[item]) for rank in range(3)]
    assert sorted(item for share in shares for item in share) == list(range(8))
    loads = [sum(costs[item] for item in share) for share in shares]
    assert max(loads) <= sum(costs) / 3 + 1.0
    assert Workers().share([3, 1, 2], float) == [3, 1, 2]
    assert [len(Workers(rank, 4).share([1, 2], float)) for rank in range(4)] == [1, 1, 0, 0]


def crc32c(data: bytes) -> int:
    """Bit by bit, as the polynomial says."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 & -(value & 1))
    return value ^ 0xFFFFFFFF


def test_an_event_file_holds_what_was_measured(tmp_path: Path) -> None:
    assert crc32c(b"123456789") == 0xE3069283, "the check value of CRC-32C"
    (tmp_path / "events.out.tfevents.1.old").write_bytes(b"old")
    events = EventFile(tmp_path, [UpdateRecord(0, validation_loss=0.5)])
    events.add(UpdateRecord(300, loss=0.25, kl=0.125, responses=24))
    (path,) = tmp_path.iterdir()
    data, messages = path.read_bytes(), []
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        for content, place in ((data[:8], 8), (data[12 : 12 + length], 12 + length)):
            (masked,) = struct.unpack("<I", data[place : place + 4])
            crc = (masked - 0xA282EAD8) & 0xFFFFFFFF
            assert (crc >> 17 | crc << 15) & 0xFFFFFFFF == crc32c(content)
        messages.append(data[12 : 12 + length])
        data = data[16 + length :]
    assert len(messages) == 3
    assert messages[0].endswith(b"brain.Event:2")
    assert b"validation_loss\x15" + struct.pack("<f", 0.5) in messages[1]
    assert messages[2][9:12] == b"\x10\xac\x02", "step 300"
    for name, value in (("loss", 0.25), ("kl", 0.125), ("responses", 24.0)):
        assert name.encode() + b"\x15" + struct.pack("<f", value) in messages[2]
    assert b"gradient_norm" not in messages[2]
