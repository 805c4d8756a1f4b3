"""Whether this server's tokens depend on what else it computes: looked at, not taken from a flag."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from stair.engines.base import Completion, Request
from stair.records.seeds import seed_of

TOGETHER = 40
_TOKENS = 64

Ask = Callable[[Request], Awaitable[Completion]]


def variants(request: Request) -> list[Request]:
    """The prompt that is watched, then others of all lengths, each with a seed of its own."""
    limit = min(_TOKENS, request.max_new_tokens)
    first = replace(request, key="probe-0", seed=seed_of("probe", 0), max_new_tokens=limit)
    others = []
    for number in range(1, TOGETHER):
        ids = request.prompt_ids
        cut = 1 + (number * 7) % len(ids)
        others.append(
            replace(
                first,
                key=f"probe-{number}",
                prompt_ids=ids[-cut:],
                seed=seed_of("probe", number),
                max_new_tokens=1 + (number * 13) % limit,  # so that the batch changes all the time
            )
        )
    return [first, *others]


async def batch_invariant(ask: Ask, request: Request) -> bool:
    """Samples one prompt alone, then among 40, with one seed.

    Args:
        ask: sends a request.
        request: the prompt and the settings to look at.

    Returns:
        Whether both gave the same tokens.
    """
    watched, *others = variants(request)
    alone = await ask(watched)
    among, *_ = await asyncio.gather(*(ask(one) for one in (watched, *others)))
    return alone.response_ids == among.response_ids
