"""Exact-token replay: the states of saved responses from passes over their tokens (appendix B.1)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import torch

from stair.engines.base import Replay
from stair.engines.transformers.passes import Passes
from stair.method import Segment, capture_length


def replay_states(passes: Passes, replays: Sequence[Replay], context: int) -> list[Segment]:
    """Feeds prompts and responses through the frozen backbone and keeps what decoding would have kept.

    A response that was generated with the auxiliary branch is replayed with it, over the same control span.
    """
    together: dict[int, list[int]] = defaultdict(list)
    sequences = [_sequence(replay, context) for replay in replays]
    for number, sequence in enumerate(sequences):
        together[passes.columns(len(sequence))].append(number)
    segments_by_number: dict[int, Segment] = {}
    for numbers in together.values():
        for start in range(0, len(numbers), passes.width):
            part = numbers[start : start + passes.width]
            segments = _replay(passes, [replays[number] for number in part], [sequences[number] for number in part])
            segments_by_number.update(zip(part, segments, strict=True))
    return [segments_by_number[number] for number in range(len(replays))]


def _sequence(replay: Replay, context: int) -> tuple[int, ...]:
    """What is fed: the token drawn last has no state, as in decoding."""
    if len(replay.prompt_ids) >= context:  # nothing was generated, and nothing can be processed
        return replay.prompt_ids[:1]
    return (*replay.prompt_ids, *replay.response_ids[:-1])


def _replay(passes: Passes, replays: Sequence[Replay], sequences: Sequence[tuple[int, ...]]) -> list[Segment]:
    """Segments of replays of equal columns, in one pass."""
    columns = passes.columns(len(sequences[0]))
    wanted = []
    for replay, sequence in zip(replays, sequences, strict=True):
        length = capture_length(
            replay.response_ids,
            end_of_thinking=replay.capture.end_of_thinking,
            stop_ids=replay.stop_ids,
        )
        start = columns - len(sequence) + len(replay.prompt_ids)
        wanted.append(slice(start, start + length))
    layers = replays[0].capture.layers
    # Of each row and layer: keys and values of the captured columns, chunk after chunk.
    kept: list[list[list[tuple[torch.Tensor, torch.Tensor]]]] = [[[] for _ in layers] for _ in replays]

    def sink(index: int, first: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        for row, span in enumerate(wanted):
            here = slice(max(span.start - first, 0), max(span.stop - first, 0))
            # [tokens, kv_heads, head_dim] to [kv_heads, tokens, head_dim]
            part = (keys[row, here].transpose(0, 1).cpu(), values[row, here].transpose(0, 1).cpu())
            kept[row][index].append(part)

    passes.run(sequences, [replay.read for replay in replays], keep=False, sink=sink)
    segments = []
    for row in kept:
        keys, values = (
            torch.stack([torch.cat([chunk[part] for chunk in of_layer], dim=1) for of_layer in row]) for part in (0, 1)
        )
        segments.append(Segment(layers, keys, values))
    return segments
