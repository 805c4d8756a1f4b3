"""The training curve: a CSV in the controller's folder, and TensorBoard's event file for who watches a long training."""

from __future__ import annotations

import csv
import struct
import time
from collections.abc import Sequence
from pathlib import Path

from stair.records.files import replacing
from stair.training.loop import UpdateRecord

COLUMNS = tuple(UpdateRecord.__dataclass_fields__)


def write_curve(path: Path, curve: Sequence[UpdateRecord]) -> None:
    """Writes the curve's CSV; what was not measured stays empty."""
    with replacing(path) as partial, open(partial, "w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(record.as_dict() for record in curve)


class EventFile:
    """A TensorBoard event file of scalars: records of length, checksum, and an Event message in protocol-buffer encoding.

    Written by hand, for two message types, so that a run needs no further package; `tensorboard --logdir` shows it.
    """

    def __init__(self, folder: Path, curve: Sequence[UpdateRecord] = ()) -> None:
        """Begins a file with what the curve holds already, in place of the folder's earlier files."""
        folder.mkdir(parents=True, exist_ok=True)
        for earlier in folder.glob("events.out.tfevents.*"):
            earlier.unlink()
        self._path = folder / f"events.out.tfevents.{int(time.time())}.stair"
        self._write(_field(3, b"brain.Event:2"))
        for record in curve:
            self.add(record)

    def add(self, record: UpdateRecord) -> None:
        """Adds everything of a record that was measured."""
        values = {name: value for name, value in record.as_dict().items() if name != "update" and value is not None}
        summary = b"".join(
            _field(1, _field(1, name.encode()) + b"\x15" + struct.pack("<f", float(value)))
            for name, value in values.items()
        )
        self._write(b"\x10" + _varint(record.update) + _field(5, summary))

    def _write(self, event: bytes) -> None:
        data = b"\x09" + struct.pack("<d", time.time()) + event
        length = struct.pack("<Q", len(data))
        with open(self._path, "ab") as handle:
            handle.write(length + struct.pack("<I", _masked(length)) + data + struct.pack("<I", _masked(data)))


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def _field(number: int, content: bytes) -> bytes:
    """A length-delimited field."""
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_CRC = _table()


def _masked(data: bytes) -> int:
    """CRC-32C (Castagnoli), masked as the record format wants it."""
    value = 0xFFFFFFFF
    for byte in data:
        value = _CRC[(value ^ byte) & 255] ^ value >> 8
    value ^= 0xFFFFFFFF
    return ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF
