"""The sampling law (docs/protocol.md): from logits to a token. One naive function as written, one batched."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from stair.engines.base import SamplingSettings
from stair.engines.noise import gumbel


def token_probabilities(
    logits: torch.Tensor,
    generated: Sequence[int],
    prompt: Sequence[int],
    settings: SamplingSettings,
    vocabulary: int | None = None,
) -> torch.Tensor:
    """The law for one row, step by step as written.

    Args:
        logits: `[vocabulary]`, any floating type.
        generated: ids generated so far in this response.
        prompt: ids of the prompt (the repetition penalty counts them, the presence penalty does not).
        settings: the draw's settings.
        vocabulary: ids from here on are no tokens of the tokenizer and are masked; None masks none.

    Returns:
        `[vocabulary]` float64 probabilities; with temperature 0 all mass on the first greatest logit.
    """
    scores = logits.float().clone()
    if vocabulary is not None:
        scores[vocabulary:] = -torch.inf
    if settings.repetition_penalty != 1.0:
        penalised_ids = torch.tensor(sorted({*generated, *prompt}), dtype=torch.long, device=scores.device)
        values = scores[penalised_ids]
        scores[penalised_ids] = torch.where(
            values > 0, values / settings.repetition_penalty, values * settings.repetition_penalty
        )
    for token in sorted(set(generated)):
        scores[token] -= settings.presence_penalty
    if settings.temperature == 0:
        return torch.nn.functional.one_hot(scores.argmax(), scores.numel()).double()
    full = (scores.double() / settings.temperature).softmax(-1)
    # Ties are ordered by id, so that every engine keeps the same tokens.
    order = torch.sort(full, descending=True, stable=True).indices
    keep = torch.ones_like(full, dtype=torch.bool)
    if settings.top_k:
        keep[order[settings.top_k :]] = False
    base = full
    if settings.truncation == "sequential":
        base = torch.where(keep, full, 0.0)
        base = base / base.sum()
    before = base[order].cumsum(-1) - base[order]
    keep[order[before >= settings.top_p]] = False
    keep[order[0]] = True
    keep &= full >= settings.min_p * full.max()
    kept = torch.where(keep, full, 0.0)
    return kept / kept.sum()


UNSOUND = -1
"""In place of a token: the row's logits contain NaN or infinity."""


class BatchSampler:
    """Draws a token for every row of a batch; rows have settings and seeds of their own.

    A row's draw is a function of its logits, its generated ids, its seed and its step alone. Logits are `[rows, vocabulary]`
    on `device`; ids from `tokens` on are no tokens of the tokenizer and are masked.
    """

    def __init__(self, rows: int, vocabulary: int, tokens: int, device: torch.device) -> None:
        self._tokens = tokens
        self._generated = torch.zeros(rows, vocabulary, dtype=torch.bool, device=device)
        self._prompt = torch.zeros(rows, vocabulary, dtype=torch.bool, device=device)
        # A row that has held no response yet asks for one candidate: without top-k the whole vocabulary would be sorted.
        self._settings: list[SamplingSettings] = [SamplingSettings(top_k=1)] * rows
        self._seeds = torch.zeros(rows, dtype=torch.long, device=device)
        self._steps = torch.zeros(rows, dtype=torch.long, device=device)
        self._stale = True

    def start(self, row: int, prompt: Sequence[int], settings: SamplingSettings, seed: int) -> None:
        """Begins a response in a row."""
        self._generated[row] = False
        self._prompt[row] = False
        if settings.repetition_penalty != 1.0:
            self._prompt[row, torch.tensor(prompt, dtype=torch.long, device=self._prompt.device)] = True
        self._settings[row] = settings
        self._seeds[row] = seed
        self._steps[row] = 0
        self._stale = True

    def _refresh(self) -> None:
        """Rebuilds the per-row tensors after a change of rows."""
        device = self._seeds.device

        def column(name: str, dtype: torch.dtype = torch.float64) -> torch.Tensor:
            return torch.tensor([getattr(s, name) for s in self._settings], dtype=dtype, device=device)[:, None]

        self._presence = column("presence_penalty", torch.float32)
        self._repetition = column("repetition_penalty", torch.float32)
        self._temperature = column("temperature")
        self._top_p, self._min_p = column("top_p"), column("min_p")
        limits = [s.top_k or self._generated.shape[1] for s in self._settings]
        self._top_k = torch.tensor(limits, device=device)[:, None]
        self._joint = torch.tensor([s.truncation == "joint" for s in self._settings], device=device)[:, None]
        self._greedy = self._temperature[:, 0] == 0
        self._any_presence = any(s.presence_penalty for s in self._settings)
        self._any_repetition = any(s.repetition_penalty != 1.0 for s in self._settings)
        # Only this many candidates can survive in any row; truncation without top-k needs them all.
        self._candidates = min(max(limits), self._generated.shape[1])
        self._stale = False

    def draw(self, logits: torch.Tensor) -> torch.Tensor:
        """Draws the next token of every row, `[rows]` int64, from logits `[rows, vocabulary]`; free rows too.

        A row whose logits contain NaN or infinity gets `UNSOUND` (minus infinity rules a token out, and is sound). The result
        says so because an exception would need a second copy to the host at every step.
        """
        if self._stale:
            self._refresh()
        scores = logits.float()
        sound = (scores < torch.inf).all(-1)
        if self._tokens < scores.shape[1]:
            scores = scores.clone()
            scores[:, self._tokens :] = -torch.inf
        if self._any_repetition:
            penalised_ids = self._prompt | self._generated
            penalised = torch.where(scores > 0, scores / self._repetition, scores * self._repetition)
            scores = torch.where(penalised_ids, penalised, scores)
        if self._any_presence:
            scores = scores - self._presence * self._generated
        greedy = scores.argmax(-1)
        # A full normaliser, then only the candidates: the tail of the vocabulary never needs noise.
        temperature = self._temperature.clamp_min(torch.finfo(torch.float64).tiny).where(~self._greedy[:, None], 1.0)
        ids = _top(scores, self._candidates)
        top = scores.gather(1, ids).double() / temperature
        full = (top - (scores.double() / temperature).logsumexp(-1, keepdim=True)).exp()
        rank = torch.arange(full.shape[1], device=full.device)
        keep = rank < self._top_k
        within = torch.where(keep, full, 0.0)
        base = torch.where(self._joint, full, within / within.sum(-1, keepdim=True))
        before = base.cumsum(-1) - base
        keep &= (before < self._top_p) | (rank == 0)
        keep &= full >= self._min_p * full[:, :1]
        noisy = torch.where(keep, top + gumbel(self._seeds, self._steps, ids), -torch.inf)
        drawn = ids.gather(1, noisy.argmax(-1, keepdim=True))[:, 0]
        tokens = torch.where(self._greedy, greedy, drawn)
        self._generated.scatter_(1, tokens[:, None], True)
        self._steps += 1
        return torch.where(sound, tokens, UNSOUND)


def _top(scores: torch.Tensor, count: int) -> torch.Tensor:
    """The ids of the greatest `count` scores of each row in descending order, ties by id, on every device."""
    size = scores.shape[1]
    if count >= size:
        return torch.sort(scores, dim=-1, descending=True, stable=True).indices
    # Among equal scores topk keeps any. So its last score decides: greater ones are kept, then equal ones from the lowest id on.
    last = scores.topk(count, dim=-1).values[:, -1:]
    places = torch.arange(size, dtype=torch.int32, device=scores.device)
    preference = torch.where(scores > last, places, torch.where(scores == last, places + size, 2 * size))
    ids = preference.topk(count, dim=-1, largest=False).values.long() % size
    return ids.gather(1, scores.gather(1, ids).sort(dim=-1, descending=True, stable=True).indices)
