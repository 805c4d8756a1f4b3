"""Train a small backbone of a real architecture on generated conversations, and write it as a Hugging Face folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import GenerationConfig, PreTrainedTokenizerFast

from stair.config.backbones import TinyBackbone
from stair.method.storage import share
from stair.models.architectures import FILES
from stair.models.turn_markers import TurnMarkers
from stair.records.text_tables import csv_table
from stair.tiny.conversations import BackbonePrompts, Example, Mixture, conversation, encode
from stair.tiny.problems import seeded
from stair.tiny.small_architectures import build, short_chunks
from stair.tiny.tokenizer import END_OF_TEXT, save_tokenizer, train_tokenizer

_CHUNK = 256  # conversations drawn, sorted by length and cut into batches together
_TOKENIZER_TEXTS = 2000
_VOCABULARY = 768
_WARMUP = 30  # updates up to the peak learning rate, which then falls linearly to zero


@dataclass(frozen=True)
class BackboneSpec:
    """Everything that a backbone's bytes depend on, besides the machine and its number of threads."""

    tiny: TinyBackbone
    thinking: bool
    prompts: BackbonePrompts
    seed: str

    @property
    def markers(self) -> TurnMarkers:
        """The architecture's markers of turns."""
        markers: TurnMarkers = FILES[self.tiny.architecture].MARKERS
        return markers

    @property
    def mixture(self) -> Mixture:
        """The conversations that the backbone is trained on."""
        return Mixture.usual(self.thinking)


def train_backbone(
    out_dir: Path, spec: BackboneSpec, on_step: Callable[[int], None] = lambda step: None
) -> dict[str, Any]:
    """Train the backbone that ``spec`` describes and write it to ``out_dir`` (created; files are overwritten).

    Writes ``model.safetensors`` (trained in FP32, rounded to BF16 at the end), ``config.json``, ``generation_config.json``,
    the tokenizer's files, ``chat_template.jinja`` and ``training_curve.csv``; the same bytes for one ``spec`` and thread
    count on one machine. ``on_step(step)`` is called after each update. Torch's global generator stays unchanged.

    Returns the measurements ``parameters``, ``tokens``, ``target_tokens``, ``final_loss`` (mean cross-entropy in
    nats over the last tenth of the updates), ``seconds``, ``threads``.
    """
    started = time.monotonic()
    out_dir.mkdir(parents=True, exist_ok=True)
    tokenizer = _tokenizer(spec)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seeded("initialisation", spec.seed).getrandbits(63))
        pad, end = (tokenizer.get_vocab()[token] for token in (END_OF_TEXT, spec.markers.end))
        model = build(spec.tiny, len(tokenizer), (pad, end))
        with short_chunks():
            curve = _fit(model, _batches(spec, tokenizer), spec.tiny, on_step)
    model.generation_config = GenerationConfig(
        do_sample=True, eos_token_id=model.config.eos_token_id, pad_token_id=model.config.pad_token_id
    )
    model.to(torch.bfloat16).save_pretrained(out_dir)
    share(out_dir / "model.safetensors")
    save_tokenizer(tokenizer, out_dir)
    rows = [list(row.values()) for row in curve]
    (out_dir / "training_curve.csv").write_text(csv_table(list(curve[0]), rows), encoding="utf-8")
    last = curve[-max(1, len(curve) // 10) :]
    return {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "tokens": sum(row["tokens"] for row in curve),
        "target_tokens": sum(row["target_tokens"] for row in curve),
        "final_loss": sum(row["loss"] for row in last) / len(last),
        "seconds": time.monotonic() - started,
        "threads": torch.get_num_threads(),
    }


def _tokenizer(spec: BackboneSpec) -> PreTrainedTokenizerFast:
    # Half of the text is multiple choice, so that the names among the options become single tokens.
    mixture = replace(spec.mixture, choice=0.5)
    turns = (
        message["content"]
        for index in range(_TOKENIZER_TEXTS)
        for message in conversation(spec.prompts, mixture, spec.thinking, spec.seed, "tokenizer", index)
    )
    texts = (piece for turn in turns for piece in (turn, "user\n", "assistant\n"))
    return train_tokenizer(texts, vocabulary=_VOCABULARY, thinking=spec.thinking, markers=spec.markers)


def _batches(spec: BackboneSpec, tokenizer: PreTrainedTokenizerFast) -> Iterator[tuple[Tensor, Tensor]]:
    """Endless batches of similar length: ids int64 ``[rows, tokens]``, right-padded, and targets bool, same shape."""
    chunk, batch = 0, 0
    while True:
        names = range(chunk * _CHUNK, (chunk + 1) * _CHUNK)
        single_turn = batch < spec.mixture.single_turn_start * spec.tiny.steps
        mixture = replace(spec.mixture, turns=(1, 0, 0, 0)) if single_turn else spec.mixture
        drawn = [conversation(spec.prompts, mixture, spec.thinking, spec.seed, index) for index in names]
        examples = sorted(encode(tokenizer, spec.markers, spec.thinking, drawn), key=lambda example: len(example.ids))
        groups: list[list[Example]] = [[]]
        for example in examples:
            if len(example.ids) * (len(groups[-1]) + 1) > spec.tiny.batch_tokens and groups[-1]:
                groups.append([])
            groups[-1].append(example)
        seeded("batches", spec.seed, chunk).shuffle(groups)
        for group in groups:
            width = max(len(example.ids) for example in group)
            ids = torch.full((len(group), width), tokenizer.pad_token_id, dtype=torch.int64)
            targets = torch.zeros((len(group), width), dtype=torch.bool)
            for row, example in enumerate(group):
                ids[row, : len(example.ids)] = torch.tensor(example.ids)
                targets[row, : len(example.ids)] = torch.tensor(example.targets)
            yield ids, targets
            batch += 1
        chunk += 1


def _fit(
    model: Any, batches: Iterator[tuple[Tensor, Tensor]], tiny: TinyBackbone, on_step: Callable[[int], None]
) -> list[dict[str, Any]]:
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.98), weight_decay=0.0, fused=True)
    (group,) = optimizer.param_groups
    curve: list[dict[str, Any]] = []
    for step, (ids, targets) in enumerate(islice(batches, tiny.steps)):
        # A linear warm-up within a linear fall to zero.
        group["lr"] = tiny.learning_rate * min(1.0, (step + 1) / _WARMUP) * (1 - step / tiny.steps)
        # No attention mask: the padding is on the right, and causal layers hide it from real tokens.
        hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state
        chosen = targets[:, 1:]
        loss = F.cross_entropy(model.lm_head(hidden[:, :-1][chosen]), ids[:, 1:][chosen])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        curve.append(
            {
                "step": step + 1,
                "loss": loss.item(),
                "learning_rate": group["lr"],
                "tokens": ids.numel(),
                "target_tokens": int(chosen.sum()),
            }
        )
        on_step(step + 1)
    model.eval()
    return curve
