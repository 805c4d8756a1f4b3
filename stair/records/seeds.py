"""Seeds and orders as functions of names: SHA-256 of stable identities, never of positions, batches, shards or time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


def name_digest(*names: str | int) -> bytes:
    """SHA-256 of a tuple of names. The length of each part is hashed too, so ("ab", "c") and ("a", "bc") differ."""
    parts = []
    for name in names:
        if not isinstance(name, str | int) or isinstance(name, bool):
            raise TypeError(f"a seed's name is made of strings and integers, not {type(name).__name__}")
        part = f"{'i' if isinstance(name, int) else 's'}{name}".encode()
        parts += [len(part).to_bytes(8, "little"), part]
    return hashlib.sha256(b"".join(parts)).digest()


def seed_of(*names: str | int) -> int:
    """A seed in [0, 2**63), a function of the names alone."""
    return int.from_bytes(name_digest(*names)[:8], "little") >> 1


def hash_order(items: Iterable[T], *names: str | int, key: Sequence[str] | None = None) -> list[T]:
    """The items in the order of the hashes of (names, item): a permutation that does not depend on their order.

    `key` holds the items' identities if the items are not strings.
    """
    items = list(items)
    identities = [str(item) for item in items] if key is None else list(key)
    if len(set(identities)) != len(items):
        raise ValueError("an order by hash needs distinct identities")
    ranked = sorted(zip(identities, items, strict=True), key=lambda pair: (name_digest(*names, pair[0]), pair[0]))
    return [item for _, item in ranked]
