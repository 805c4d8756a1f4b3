"""A conversation with a trained controller: the evaluation's rendering, capture, reads and sampling, one turn at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, get_args

from stair.core import EngineIdentity, ReadSpecification
from stair.engines.base import SamplingSettings
from stair.engines.identity import attention_path, transformers_version
from stair.engines.transformers import TransformersEngine
from stair.method import Bank, Reflector, Segment, load_controller
from stair.method.controllers import ADAPTER_FILES
from stair.models.architecture import Architecture
from stair.models.model_folder import check_weights, read_architecture
from stair.records.files import read_mapping, write_json
from stair.records.keys import adapter_digest
from stair.records.seeds import seed_of
from stair.sessions.renderer import Renderer
from stair.sessions.trajectory import Control, Generation, Need, Question, Trajectory

Condition = Literal["native", "stair"]
"""The unmodified model, or the model with what was trained."""
_FILE = "conversation.json"
_NEXT = Question("", 0, {})
"""A turn that may follow, so the states of the answer before it are captured."""


@dataclass(frozen=True)
class Answer:
    """An answer to one message."""

    text: str
    """The visible answer: without the thinking of a thinking model."""
    response: str
    """The whole response."""
    response_ids: tuple[int, ...]
    finish_reason: str
    """`stop`, or `length` or `context` at a limit."""
    condition: Condition
    bank_entries: int
    """The number of bank entries that each query of the message could read."""

    def __str__(self) -> str:
        return self.text


class Comparison(NamedTuple):
    """Two answers to one message, from one history and one seed."""

    native: Answer
    stair: Answer


class BankSize(NamedTuple):
    """The size of a bank: its turns, its entries per layer and K/V head, and the bytes of all states."""

    turns: int
    entries: int
    bytes: int


class ChatTurn(NamedTuple):
    """A message and its answer."""

    user: str
    seed: int
    answer: Answer
    segment: Segment | None
    """The states of the answer; None if nothing reads a bank."""


class Conversation:
    """A conversation with a model and a trained controller; `load` makes one.

    Attributes:
        turns: the finished turns; both conditions continue from them.
    """

    def __init__(
        self,
        engine: TransformersEngine,
        settings: Generation,
        read: ReadSpecification,
        seed: int,
        turns: Sequence[ChatTurn],
    ) -> None:
        self.turns = list(turns)
        self._engine, self._settings, self._read, self._seed = engine, settings, read, seed

    @classmethod
    def load(
        cls,
        model_folder: str | Path,
        controller_folder: str | Path,
        saved: str | Path | None = None,
        *,
        thinking: bool | None = None,
        dtype: str = "bfloat16",
        device: str = "auto",
        attention: str = "auto",
        read: ReadSpecification | None = None,
        seed: int | None = None,
        max_new_tokens: int | None = None,
        **sampling: Any,
    ) -> Self:
        """Loads a model and a controller.

        Args:
            saved: the folder of a saved conversation to continue, also with its settings.
            thinking: whether the model thinks first. Default: whether its template opens `<think>`.
            dtype: `bfloat16`, `float32` or `float64`.
            device: `auto`, `cpu` or `cuda`.
            attention: `auto`, or Transformers' name of an attention implementation.
            read: how the bank is read.
            seed: the seeds of all turns follow from it (default 0).
            max_new_tokens: the limit of a response (default 1,024).
            sampling: temperature, top_p, top_k, min_p, presence_penalty, repetition_penalty. Default: greedy.

        Raises:
            ValueError: a folder lacks a file, the controller belongs to another model, or the saved conversation to another
                controller.
        """
        folder, kept = Path(model_folder), {} if saved is None else read_mapping(Path(saved) / _FILE)
        architecture, attention = read_architecture(folder), attention_path(attention, dtype, device)
        check_weights(folder)
        control, adapter = _trained(Path(controller_folder), architecture)
        settings = Generation(
            model_revision=str(folder),
            engine=EngineIdentity("transformers", transformers_version(), attention, dtype),
            renderer=_renderer(folder, thinking),
            sampling=SamplingSettings(**{"temperature": 0.0, **kept.get("sampling", {}), **sampling}),
            max_new_tokens=max_new_tokens or kept.get("max_new_tokens", 1024),
            columns=(),
            control=control,
            adapter=adapter[1] if adapter else None,
        )
        turns = [] if saved is None else _saved_turns(Path(saved), kept, settings)
        engine = TransformersEngine.load(
            folder,
            dtype=dtype,
            device=device,
            attention=attention,
            adapter=adapter,
            tokens=settings.renderer.tokens,
            layers=control.layers if control else (),
            batch_width=1,
        )
        seed = kept.get("seed", 0) if seed is None else seed
        return cls(engine, settings, read or ReadSpecification(), seed, turns)

    def ask(
        self,
        text: str,
        condition: Condition = "stair",
        *,
        seed: int | None = None,
        stream: Callable[[str], object] | None = None,
    ) -> Answer:
        """Answers a message and keeps the turn. An exception, such as Ctrl-C, leaves the conversation as it was.

        Args:
            condition: `stair` with the controller, `native` without it.
            seed: of the draws; by default it follows from the conversation's seed and the turn.
            stream: called with each new part of the response, thinking included.

        Raises:
            ValueError: the conversation has no room in the model's context, or an unknown condition.
        """
        self.turns.append(self._answered(text, condition, seed, stream))
        return self.turns[-1].answer

    def compare(self, text: str, *, keep: Condition = "stair", seed: int | None = None) -> Comparison:
        """Answers a message in both conditions; the conversation continues from the answer of `keep`."""
        turns = {condition: self._answered(text, condition, seed) for condition in get_args(Condition)}
        self.turns.append(turns[keep])
        return Comparison(turns["native"].answer, turns["stair"].answer)

    @property
    def bank(self) -> BankSize:
        """The size of the bank that the next turn reads."""
        segments = [turn.segment for turn in self.turns if turn.segment is not None]
        return BankSize(len(segments), sum(each.tokens for each in segments), sum(each.nbytes for each in segments))

    def save(self, folder: str | Path) -> None:
        """Writes the turns, their states and the settings to a folder, for `load`."""
        settings = self._settings
        Bank(self._layers, (turn.segment for turn in self.turns if turn.segment is not None)).save(folder)
        turns = [
            turn._asdict() | {"answer": asdict(turn.answer), "segment": turn.segment and turn.segment.digest}
            for turn in self.turns
        ]
        content = dict(
            trained=_identity(settings),
            seed=self._seed,
            sampling=settings.sampling.as_dict(),
            max_new_tokens=settings.max_new_tokens,
            turns=turns,
        )
        write_json(Path(folder) / _FILE, content)

    @property
    def _layers(self) -> tuple[int, ...]:
        return self._settings.control.layers if self._settings.control else ()

    def _answered(
        self, text: str, condition: Condition, seed: int | None, stream: Callable[[str], object] | None = None
    ) -> ChatTurn:
        if condition not in get_args(Condition):
            raise ValueError(f"a condition is native or stair, not {condition!r}")
        seed = seed_of("conversation", self._seed, len(self.turns) + 1) if seed is None else seed
        asked = [*((turn.user, turn.seed) for turn in self.turns), (text, seed)]
        trajectory = Trajectory(self._settings, [*(Question(*each, {}, self._read) for each in asked), _NEXT])
        trajectory.advance()
        for turn in self.turns:
            trajectory.advance(({"response_ids": turn.answer.response_ids}, turn.segment))
        need = trajectory.advance()
        assert isinstance(need, Need)
        trajectory.close()
        request, context = need.request, self._engine.architecture.context
        if len(request.prompt_ids) >= context:
            raise ValueError(
                f"the conversation has {len(request.prompt_ids):,} tokens with this message, and the model's context ends at "
                f"{context:,}: begin a new one"
            )
        if condition == "native":
            request = replace(request, read=None)
        shown = 0

        def show(ids: Sequence[int], whole: bool = False) -> None:
            nonlocal shown
            new = renderer.text(ids)
            if stream is not None and len(new) > shown and (whole or not new.endswith("�")):
                stream(new[shown:])
                shown = len(new)

        renderer = self._settings.renderer
        self._engine.drawn = None if stream is None else lambda key, ids: show(ids)
        with _native_weights(self._engine.model, condition == "native" and self._settings.adapter is not None):
            (completion,) = self._engine.run([request])
        ids = completion.response_ids
        show(ids, whole=True)
        read = completion.receipt.bank_tokens if completion.receipt is not None else 0
        visible, reason = renderer.visible_answer(ids), completion.finish_reason
        return ChatTurn(text, seed, Answer(visible, renderer.text(ids), ids, reason, condition, read), completion.bank)


def _trained(folder: Path, architecture: Architecture) -> tuple[Control | None, tuple[Path, str] | None]:
    """The control and the adapter of a controller's folder; one of them can be absent."""
    if not folder.is_dir():
        raise ValueError(f"controller folder {folder} does not exist")
    missing = [name for name in ADAPTER_FILES if not (folder / name).is_file()]
    card = folder / "README.md"
    adapts = len(missing) < len(ADAPTER_FILES) or (
        card.is_file() and "\nlibrary_name: peft\n" in card.read_text("utf-8")
    )
    if adapts and missing:
        raise ValueError(f"{folder} holds no adapter: there is no {missing[0]}")
    if adapts and find_spec("peft") is None:
        raise ValueError(f"{folder} has an adapter, which needs the package peft: pip install peft")
    control = None
    if not adapts or (folder / "controller.safetensors").is_file():
        weights = load_controller(folder, architecture)
        control = Control(weights.digest, weights.layers, isinstance(weights, Reflector), weights)
    return control, (folder, adapter_digest(folder)) if adapts else None


def _identity(settings: Generation) -> list[str | None]:
    """What was trained, by its contents."""
    return [settings.control.digest if settings.control else None, settings.adapter]


def _saved_turns(folder: Path, kept: Mapping[str, Any], settings: Generation) -> list[ChatTurn]:
    if kept["trained"] != _identity(settings):
        raise ValueError(f"the conversation in {folder} was saved with another controller")
    turns, layers = [], settings.control.layers if settings.control else ()
    for turn in kept["turns"]:
        answer = Answer(**turn["answer"] | {"response_ids": tuple(turn["answer"]["response_ids"])})
        segment = None if turn["segment"] is None else Bank.load(layers, folder, [turn["segment"]]).segments[0]
        turns.append(ChatTurn(turn["user"], turn["seed"], answer, segment))
    return turns


def _renderer(folder: Path, thinking: bool | None) -> Renderer:
    if thinking is None:
        plain = Renderer.load(folder, thinking=False).tokenizer
        asked = [{"role": "user", "content": "?"}]
        opening = plain.apply_chat_template(asked, tokenize=False, add_generation_prompt=True)
        thinking = opening.rstrip().endswith("<think>")
    return Renderer.load(folder, thinking=thinking)


@contextmanager
def _native_weights(model: Any, adapted: bool) -> Iterator[None]:
    """The frozen model alone: its adapter is off."""
    layers: list[Any] = []
    if adapted:
        from peft.tuners.tuners_utils import BaseTunerLayer

        layers = [module for module in model.modules() if isinstance(module, BaseTunerLayer)]
    for layer in layers:
        layer.enable_adapters(False)
    try:
        yield
    finally:
        for layer in layers:
            layer.enable_adapters(True)
        if layers:
            model.requires_grad_(False)
