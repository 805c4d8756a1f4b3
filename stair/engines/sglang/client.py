"""Requests and answers of SGLang's native API: one sample each, ids in and out, every parameter given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stair.engines.base import Completion, FinishReason, Request, Usage

_MASKED = -1e9
"""Added to logits that must not be drawn: its exponential is zero at any temperature, and JSON has it, unlike infinity."""


class Retracted(Exception):
    """The server's cache ran full, so it restarted a response and lost its presence penalty."""


@dataclass(frozen=True)
class Asker:
    """Turns requests into payloads and answers into completions.

    Args:
        context: the model's context in tokens.
        vocabulary: rows of the model's output.
        tokens: how many ids are tokens of the tokenizer; the rest are masked.
    """

    context: int
    vocabulary: int
    tokens: int

    def limit(self, request: Request) -> int:
        """The output limit, clamped to the context."""
        return min(request.max_new_tokens, self.context - len(request.prompt_ids))

    def payload(self, request: Request) -> dict[str, Any]:
        """The body of `/generate`, with every parameter: a missing one would come from the model's generation_config.json."""
        sampling = request.sampling
        beyond = range(self.tokens, self.vocabulary)
        return {
            "input_ids": list(request.prompt_ids),
            "sampling_params": {
                "n": 1,
                "sampling_seed": request.seed,
                "temperature": sampling.temperature,
                "top_p": sampling.top_p,
                # Never "all": without truncation, a draw has other noise alone than beside one with truncation.
                "top_k": sampling.top_k or self.vocabulary,
                "min_p": sampling.min_p,
                "presence_penalty": sampling.presence_penalty,
                "frequency_penalty": 0.0,
                "repetition_penalty": sampling.repetition_penalty,
                "max_new_tokens": self.limit(request),
                "min_new_tokens": 0,
                "stop": None,
                "stop_token_ids": list(request.stop_ids),
                "stop_regex": None,
                "ignore_eos": False,
                "skip_special_tokens": True,
                "spaces_between_special_tokens": True,
                "no_stop_trim": True,
                "logit_bias": {str(token): _MASKED for token in beyond} or None,
            },
            "stream": False,
            "return_logprob": False,
        }

    def completion(self, request: Request, answer: dict[str, Any]) -> Completion:
        """The completion in an answer, which must fit the request.

        Raises:
            Retracted: the tokens were drawn without their penalty; the request must be sent again.
            ValueError: the server rejects the request or ended the response early, or its answer cannot be right.
        """
        facts, ids = answer["meta_info"], tuple(answer["output_ids"])
        reason = facts["finish_reason"] or {}
        kind = reason.get("type")
        if kind == "abort":
            raise ValueError(f"SGLang's server aborted it: {reason.get('message')}")
        if facts.get("num_retractions") and request.sampling.presence_penalty:
            raise Retracted
        limit = self.limit(request)
        finish: FinishReason
        if kind == "stop":
            finish = "stop"
            right = bool(ids) and ids[-1] in request.stop_ids and len(ids) <= limit
        else:
            finish = "length" if limit == request.max_new_tokens else "context"
            right = kind == "length" and len(ids) == limit
        right &= facts["prompt_tokens"] == len(request.prompt_ids)
        right &= all(0 <= token < self.tokens for token in ids)
        right &= not any(token in request.stop_ids for token in ids[:-1])
        if not right:
            raise ValueError(
                f"unexpected response from SGLang: {len(ids)} of at most {limit} tokens, finish reason "
                f"{reason}, {facts['prompt_tokens']} prompt tokens (a key/value cache that is too small cuts responses off)"
            )
        return Completion(request.key, ids, finish, None, None, Usage(len(request.prompt_ids), len(ids)))
