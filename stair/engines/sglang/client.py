"""Requests over SGLang's native API: one sample each, ids in and out, every parameter said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import httpx2 as httpx
import orjson

from stair.engines.base import Completion, FinishReason, Request, Usage
from stair.engines.sglang.invariance import Scored

_MASKED = -1e9
"""Added to logits that must not be drawn: its exponential is zero at any temperature, and JSON can say it."""


class Transient(Exception):
    """The server is gone, busy or was interrupted: asking again may help."""


class Refused(ValueError):
    """The server will not answer this request."""


class Retracted(Exception):
    """The server ran out of cache and began a response anew, and with that forgot its presence penalty."""


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
        """The output limit, clamped to what the context leaves."""
        return min(request.max_new_tokens, self.context - len(request.prompt_ids))

    def payload(self, request: Request, **more: Any) -> dict[str, Any]:
        """The body of `/generate`. What is left out would come from the model's generation_config.json."""
        sampling = request.sampling
        beyond = range(self.tokens, self.vocabulary)
        return {
            "input_ids": list(request.prompt_ids),
            "sampling_params": {
                "n": 1,
                "sampling_seed": request.seed,
                "temperature": sampling.temperature,
                "top_p": sampling.top_p,
                # Never "all": a draw without any truncation takes other noise, alone, than beside one that is truncated.
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
            **more,
        }

    async def ask(self, client: httpx.AsyncClient, address: str, request: Request) -> Completion:
        """One sample.

        Raises:
            Transient: ask again.
            Retracted: ask again, with fewer at a time.
            ValueError: the server refuses the request, or its answer cannot be right.
        """
        try:
            return self.completion(request, await self.post(client, address, self.payload(request)))
        except (KeyError, TypeError) as error:
            problem = f"SGLang's answer is not one: {type(error).__name__}: {error}"
            raise ValueError(f"request {request.key[:12]}: {problem}") from error
        except Refused as error:
            raise ValueError(f"request {request.key[:12]}: {error}") from None

    async def scored(self, client: httpx.AsyncClient, address: str, request: Request) -> Scored:
        """One sample's tokens with the log-probability of each, as the server gives them. Raises as `ask`."""
        answer = await self.post(client, address, self.payload(request, return_logprob=True))
        completion = self.completion(request, answer)
        return completion.response_ids, tuple(one[0] for one in answer["meta_info"]["output_token_logprobs"])

    @staticmethod
    async def post(client: httpx.AsyncClient, address: str, payload: dict[str, Any]) -> dict[str, Any]:
        """Sends a payload; the answer as it came. Raises as `ask`."""
        try:
            answer = await client.post(
                f"{address}/generate", content=orjson.dumps(payload), headers={"Content-Type": "application/json"}
            )
        except httpx.TransportError as error:
            raise Transient(f"{type(error).__name__}: {error}") from error
        if answer.status_code == 200:
            try:
                content: dict[str, Any] = orjson.loads(answer.content)
            except orjson.JSONDecodeError as error:
                raise Transient(f"an answer that is no JSON: {error}") from error
            return content
        problem = answer.text[:500]
        if answer.status_code in (408, 429) or answer.status_code >= 500:
            raise Transient(f"status {answer.status_code}: {problem}")
        raise Refused(f"SGLang's server refuses it (status {answer.status_code}): {problem}")

    def completion(self, request: Request, answer: dict[str, Any]) -> Completion:
        """What an answer says, held to what was asked. Raises as `ask`."""
        facts, ids = answer["meta_info"], tuple(answer["output_ids"])
        reason = facts["finish_reason"] or {}
        kind, name = reason.get("type"), f"request {request.key[:12]}"
        if kind == "abort":
            if reason.get("status_code") == 400:
                raise ValueError(f"{name}: SGLang's server refuses it: {reason.get('message')}")
            raise Transient(f"aborted: {reason.get('message')}")
        if facts.get("num_retractions") and request.sampling.presence_penalty:
            raise Retracted(name)
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
                f"{name}: SGLang's answer is not what was asked for: {len(ids)} of at most {limit} tokens, finish reason "
                f"{reason}, {facts['prompt_tokens']} prompt tokens (a key/value cache that is too small cuts responses off)"
            )
        return Completion(request.key, ids, finish, None, None, Usage(len(request.prompt_ids), len(ids)))
