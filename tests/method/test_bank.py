"""Segments, the bank, what is kept of it for reading, and where they lie on disk."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from method_cases import LAYERS, random_bank
from torch.overrides import TorchFunctionMode

from stair.method import Bank, Rotary, Segment

ROTARY = Rotary(16, 10_000.0)
CPU = torch.device("cpu")


def random_segment(
    tokens: int, seed: int = 0, dtype: torch.dtype = torch.float32, layers: tuple[int, ...] = LAYERS
) -> Segment:
    generator = torch.Generator().manual_seed(seed)
    keys = torch.randn(len(layers), 2, tokens, 16, generator=generator).to(dtype)
    return Segment(layers, keys, torch.randn(len(layers), 2, tokens, 16, generator=generator).to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_segment_comes_back_from_disk(tmp_path: Path, dtype: torch.dtype) -> None:
    segment = random_segment(7, dtype=dtype)
    segment.save(tmp_path / "deep" / "a.safetensors")
    again = Segment.load(tmp_path / "deep" / "a.safetensors")
    assert torch.equal(again.keys, segment.keys)
    assert torch.equal(again.values, segment.values)
    assert (again.layers, again.tokens, again.digest) == (LAYERS, 7, segment.digest)
    assert segment.nbytes == 2 * len(LAYERS) * 2 * 7 * 16 * dtype.itemsize
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["a.safetensors"]


def test_a_damaged_segment_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    random_segment(7).save(path)
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[-5] ^= 1
    for content in (whole[:-8], whole[:4], b"", bytes(flipped), b"x" * 200):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"a\.safetensors") as caught:
            Segment.load(path)
        assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match=r"none\.safetensors"):
        Segment.load(tmp_path / "none.safetensors")


def test_the_digest_is_of_the_content() -> None:
    segment = random_segment(7)
    assert segment.digest == random_segment(7).digest
    others = [
        random_segment(7, seed=1),
        random_segment(7, layers=(1, 5)),
        random_segment(7, dtype=torch.bfloat16),
        Segment(LAYERS, segment.values, segment.keys),
        Segment(LAYERS, segment.keys.view(2, 2, 14, 8), segment.values.view(2, 2, 14, 8)),
    ]
    assert len({segment.digest, *(other.digest for other in others)}) == 6


def test_the_banks_digest_follows_the_segments_in_order() -> None:
    first, second = random_segment(3), random_segment(4, seed=1)
    bank = Bank(LAYERS, [first])
    before = bank.digest
    bank.append(second)
    assert before == Bank(LAYERS, [first]).digest != bank.digest
    assert bank.digest == Bank(LAYERS, [first, second]).digest != Bank(LAYERS, [second, first]).digest
    assert Bank(LAYERS).digest != Bank((1, 5)).digest
    assert bank.tokens == 7
    assert bank.nbytes == first.nbytes + second.nbytes


def test_a_bank_comes_back_from_disk_by_content(tmp_path: Path) -> None:
    bank = random_bank(5, 3)
    digests = bank.save(tmp_path)
    assert digests == tuple(segment.digest for segment in bank.segments)
    again = Bank.load(LAYERS, tmp_path, digests)
    assert (again.digest, again.tokens) == (bank.digest, 8)
    written = [path.stat().st_mtime_ns for path in sorted(tmp_path.iterdir())]
    bank.append(random_segment(2))
    assert len(set(bank.save(tmp_path)) - set(digests)) == 1
    assert set(written) < {path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    (tmp_path / f"{digests[0]}.safetensors").rename(tmp_path / f"{digests[1]}.safetensors")
    for digest, message in ((digests[0], "cannot be read"), (digests[1], "damaged")):
        with pytest.raises(ValueError, match=message):
            Bank.load(LAYERS, tmp_path, [digest])


def test_what_does_not_fit_a_bank_is_refused() -> None:
    bank = Bank(LAYERS, [random_segment(3)])
    wide = Segment(LAYERS, torch.zeros(2, 4, 3, 16), torch.zeros(2, 4, 3, 16))
    for segment in (random_segment(3, layers=(1, 5)), random_segment(3, dtype=torch.bfloat16), wide):
        with pytest.raises(ValueError, match="does not fit a bank"):
            bank.append(segment)
    assert bank.tokens == 3
    with pytest.raises(ValueError, match="cannot hold"):
        Segment(LAYERS, torch.zeros(3, 2, 3, 16), torch.zeros(3, 2, 3, 16))


def test_rotated_keys_are_extended_and_never_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    rotated: list[int] = []
    rotate = Rotary.__call__

    def counting(self: Rotary, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        rotated.extend(positions.tolist())
        return rotate(self, x, positions)

    monkeypatch.setattr(Rotary, "__call__", counting)
    bank = random_bank(5, 3)
    bank.resident(CPU, torch.float32, ROTARY)
    bank.append(random_segment(4, seed=7))
    resident = bank.resident(CPU, torch.float32, ROTARY)
    assert bank.resident(CPU, torch.float32, ROTARY) is resident
    assert sorted(rotated) == sorted(list(range(12)) * len(LAYERS))
    for index in range(len(LAYERS)):
        keys, values = resident.layer(index)
        stored = torch.cat([segment.keys[index] for segment in bank.segments], 1)
        assert torch.equal(keys, rotate(ROTARY, stored, torch.arange(12)))
        assert torch.equal(values, torch.cat([segment.values[index] for segment in bank.segments], 1))
    bank.release()
    assert bank.resident(CPU, torch.float32, ROTARY) is not resident


class _HostCopies(TorchFunctionMode):
    """Records what takes numbers from the host to another device, and whether the host waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[str] = []
        self.queued = 0

    def __torch_function__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        kwargs = kwargs or {}
        result = function(*args, **kwargs)
        if isinstance(result, torch.Tensor) and result.device.type != "cpu":
            made = function in (torch.tensor, torch.as_tensor)
            moved = any(isinstance(arg, torch.Tensor) and arg.device.type == "cpu" and arg.dim() for arg in args)
            if made or (moved and not kwargs.get("non_blocking")):
                self.waiting.append(function.__name__)
            self.queued += moved
        return result


class Refusing:
    """The rotation, which runs out of memory at one call."""

    def __init__(self, at: int) -> None:
        self.calls, self.at = 0, at

    def __call__(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        if self.calls == self.at:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return ROTARY(x, positions)


@pytest.mark.parametrize("at", [1, 2, 4])
def test_a_bank_whose_filling_ran_out_of_memory_is_filled_again(at: int) -> None:
    """The first layer or a later one, of the first segment or of a second one."""
    bank, rotary = Bank(LAYERS), Refusing(at)
    for seed in range(2):
        bank.append(random_segment(5 + seed, seed))
        try:
            bank.resident(CPU, torch.float32, rotary)  # type: ignore[arg-type]
        except torch.OutOfMemoryError:
            bank.resident(CPU, torch.float32, rotary)  # type: ignore[arg-type]
    found, wanted = (bank.resident(CPU, torch.float32, each) for each in (rotary, ROTARY))  # type: ignore[arg-type]
    assert rotary.calls > at
    for index in range(len(LAYERS)):
        assert all(map(torch.equal, found.layer(index), wanted.layer(index)))


def test_a_transfer_never_waits() -> None:
    """On a GPU, a copy that waits would end the overlap of the transfer with the layers before the first controlled one."""
    bank = random_bank(40, 2)
    with _HostCopies() as copies:
        bank.resident(torch.device("meta"), torch.float32, ROTARY).layer(0)
    assert copies.queued == 2 * len(bank.segments) * len(LAYERS)
    assert copies.waiting == []


def test_rotation_holds_at_position_400_000() -> None:
    """Against angles from Python's own exact-argument sine and cosine; a float32 angle would be off by 1e-2."""
    x = torch.randn(1, 1, 64, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rotary = Rotary(32, 5_000_000.0)
    found = rotary(x, torch.tensor([400_000]))[0, 0]
    for pair in range(16):
        angle = 400_000 * 5_000_000.0 ** (-2 * pair / 32)
        first, second = float(x[0, 0, pair]), float(x[0, 0, pair + 16])
        assert float(found[pair]) == pytest.approx(first * math.cos(angle) - second * math.sin(angle), abs=1e-9)
        assert float(found[pair + 16]) == pytest.approx(second * math.cos(angle) + first * math.sin(angle), abs=1e-9)
    assert torch.equal(found[32:], x[0, 0, 32:])
    single = rotary(x.float(), torch.tensor([400_000]))[0, 0]
    assert (single.double() - found).abs().max() < 1e-6


def test_rotation_depends_on_the_distance_alone() -> None:
    generator = torch.Generator().manual_seed(0)
    query, key = (torch.randn(1, 32, generator=generator, dtype=torch.float64) for _ in range(2))
    rotary = Rotary(32, 10_000.0)
    near = rotary(query, torch.tensor([7])) @ rotary(key, torch.tensor([3])).T
    far = rotary(query, torch.tensor([400_007])) @ rotary(key, torch.tensor([400_003])).T
    assert float(near) == pytest.approx(float(far), abs=1e-8)
