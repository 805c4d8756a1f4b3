"""`stair chat`: a conversation with a trained controller of a run, in a terminal or over a pipe."""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from stair.cli.context import open_run
from stair.config.paths import require_folder
from stair.core import ReadSpecification
from stair.records.files import bytes_text

if TYPE_CHECKING:
    from stair.conversation import Condition, Conversation

HELP = "/native, /stair: who answers; /compare TEXT; /bank; Ctrl-C: stop; Ctrl-D: end"


def load(run: Path, model: str | None, controller: str, seed: int) -> Conversation:
    """The conversation with the evaluation's settings of a run's model. Raises ValueError for an unknown model or controller."""
    config, paths = open_run(run)
    model = model or next(iter(config.models))
    for name, known, kind in ((model, config.models, "model"), (controller, config.controllers, "controller")):
        if name not in known:
            raise ValueError(f"{run} has no {kind} {name!r}; it has {', '.join(known)}")
    folder, settings = require_folder(paths.model_folder(config, model), f"models.{model}"), config.models[model]
    from transformers.utils import logging

    from stair.conversation import Conversation

    logging.set_verbosity_error()  # advice on kernels would be printed inside an answer
    return Conversation.load(
        folder,
        paths.controller(model, controller),
        thinking=settings.thinking,
        dtype=settings.dtype,
        device=config.transformers.device,
        attention=config.transformers.attention,
        read=ReadSpecification(smoothing=config.controllers[controller].smoothing),
        seed=seed,
        **settings.evaluation_sampling.model_dump(),
    )


def converse(chat: Conversation) -> None:
    """Answers each line of the standard input until it ends, or until Ctrl-C outside an answer."""
    condition: Condition = "stair"
    with suppress(KeyboardInterrupt, EOFError):
        signal.signal(signal.SIGINT, signal.default_int_handler)  # Ctrl-C stops an answer, not the command
        print(HELP, flush=True)
        while True:
            line = input(f"{condition}> " if sys.stdin.isatty() else "").strip()
            try:
                condition = _obey(chat, line, condition)
            except KeyboardInterrupt:
                print("\nstopped: the conversation goes on without this message", flush=True)
            except (ValueError, FloatingPointError, MemoryError) as error:
                print(f"stair: error: {error}", file=sys.stderr, flush=True)
    if sys.stdin.isatty():
        print()


def _obey(chat: Conversation, line: str, condition: Condition) -> Condition:
    """Carries out one line; returns the condition of the next messages."""
    word, _, text = line.partition(" ")
    if word == "/native" or word == "/stair":
        return "native" if word == "/native" else "stair"
    if word == "/bank":
        bank = chat.bank
        print(
            f"{bank.turns} turn{'s' * (bank.turns != 1)}, {bank.entries} entries, {bytes_text(bank.bytes)}", flush=True
        )
    elif word == "/compare" and text:
        both = chat.compare(text, keep=condition)
        print(f"native: {both.native.response}\nstair: {both.stair.response}", flush=True)
    elif word.startswith("/"):
        print(HELP, flush=True)
    elif line:
        chat.ask(line, condition, stream=lambda part: print(part, end="", flush=True))
        print(flush=True)
    return condition
