"""A bank prefix: its entries alone are stored and transferred, and read as if the rest were there (appendix C.4)."""

from __future__ import annotations

from collections.abc import Sequence

from stair.method import Bank, Segment


class PrefixBank(Bank):
    """The first `limit` entries of some segments, on the host, in copies of their own.

    `tokens` stays the length M of the whole bank: the current query keeps position M + p. The read is that of the whole bank
    with `ReadSpecification.limit`; the transfer and the memory are those of the prefix.
    """

    def __init__(self, layers: Sequence[int], segments: Sequence[Segment], limit: int) -> None:
        super().__init__(layers)
        self._length = sum(segment.tokens for segment in segments)
        left = limit
        for segment in segments:
            count = min(left, segment.tokens)
            if count:
                keys, values = (states[:, :, :count].cpu().contiguous() for states in (segment.keys, segment.values))
                self.append(Segment(segment.layers, keys, values))
            left -= count

    @property
    def tokens(self) -> int:
        """M, the entries of the whole bank."""
        return self._length
