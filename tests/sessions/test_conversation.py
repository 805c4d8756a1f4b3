"""`Conversation`: the evaluation's tokens, its errors, and what is saved of it; shipped models of both architectures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, get_peft_model

from stair import Conversation
from stair.conversation import Condition
from stair.core import EngineIdentity, Place, Problem, ReadSpecification
from stair.engines.base import SamplingSettings
from stair.engines.transformers import TransformersEngine
from stair.method import Reflector
from stair.models.load import load_model
from stair.models.model_folder import read_architecture
from stair.records.progress import Progress
from stair.records.schemas import RESPONSES
from stair.records.worklog import WorkLog, WorkLogWriter
from stair.sessions.banks import BankStore
from stair.sessions.renderer import Renderer
from stair.sessions.run import generate
from stair.sessions.trajectory import Control, Generation, Trajectory, questions
from tests.sessions.protocol_cases import Rows

BACKBONES = Path(__file__).parents[2] / "backbones"
LAYERS = (3, 7, 11)
ASKED = ["What is 3 + 4?", "What is 17 - 5?", "What is 6 * 7?", "A shop sells 12 pens for 3 each. What do they cost?"]
GREEDY = SamplingSettings(temperature=0.0)
SAMPLED = SamplingSettings(temperature=1.0, top_k=20, top_p=0.95, presence_penalty=0.5)


@pytest.fixture(scope="module", params=["tiny-qwen3-4b", "tiny-qwen3.5-4b"])
def model(request: pytest.FixtureRequest) -> Path:
    return BACKBONES / request.param


@pytest.fixture(scope="module")
def controller(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    architecture, folder = read_architecture(model), tmp_path_factory.mktemp("controller")
    reflector = Reflector.draw(LAYERS, architecture.query_heads, architecture.head_dim, seed=1)
    reflector.save(folder / "controller.safetensors", architecture=architecture)
    return folder


@pytest.fixture(scope="module")
def loaded(model: Path, controller: Path) -> Conversation:
    return Conversation.load(model, controller, dtype="float32", max_new_tokens=24)


@pytest.fixture
def chat(loaded: Conversation) -> Iterator[Conversation]:
    yield loaded
    loaded.turns.clear()


def evaluated(model: Path, controller: Path, condition: Condition, sampling: SamplingSettings, folder: Path) -> Rows:
    """The rows of one trajectory of the evaluation, whose T1 is Vanilla's saved response."""
    renderer = Renderer.load(model, thinking="3.5" in model.name)
    reflector = Reflector.load(controller / "controller.safetensors")
    engine = TransformersEngine.load(
        model, dtype="float32", device="cpu", attention="sdpa", tokens=renderer.tokens, layers=LAYERS, batch_width=4
    )

    def rows(name: str, turns: int, first: dict | None, control: Control | None) -> Rows:
        settings = Generation(
            model_revision="revision",
            engine=EngineIdentity("transformers", "1", "sdpa", "float32"),
            renderer=renderer,
            sampling=sampling,
            max_new_tokens=24,
            columns=tuple(RESPONSES.names),
            control=control,
            banks=BankStore(folder / name),
        )
        problems = [Problem(f"p{number}", text) for number, text in enumerate(ASKED[:turns])]
        read = ReadSpecification() if control else None
        one = Trajectory(settings, questions(Place("m", "b", name), "s", 0, problems, "evaluation", read), first)
        progress = Progress(folder / "progress", name, total=9, unit="responses")
        with WorkLogWriter(folder / f"{name}-log", "shard-0-of-1") as writer:
            generate([one], engine, WorkLog(folder / f"{name}-log"), writer, progress, [])
        return one.rows

    (first,) = rows("vanilla", 1, None, None)
    return rows(condition, 4, first, Control("c", LAYERS, True, reflector) if condition == "stair" else None)


@pytest.mark.parametrize(("condition", "sampling"), [("native", GREEDY), ("stair", SAMPLED)], ids=["native", "stair"])
def test_four_turns_have_the_evaluations_tokens(
    model: Path, controller: Path, condition: Condition, sampling: SamplingSettings, tmp_path: Path
) -> None:
    chat = Conversation.load(
        model,
        controller,
        dtype="float32",
        max_new_tokens=24,
        **{name: value for name, value in sampling.as_dict().items() if name != "truncation"},
    )
    rows = evaluated(model, controller, condition, sampling, tmp_path)
    assert len(rows) == 4
    for text, row in zip(ASKED, rows, strict=True):
        answer = chat.ask(text, condition, seed=row["seed"])
        assert list(answer.response_ids) == list(row["response_ids"])
        assert (answer.response, answer.finish_reason) == (row["response"], row["finish_reason"])
        assert answer.bank_entries == (row["bank_tokens"] or 0)


def test_a_comparison_adds_one_turn_and_its_answers_are_those_of_ask(chat: Conversation) -> None:
    chat.ask(ASKED[0])
    both = chat.compare(ASKED[1], keep="native")
    assert [turn.answer for turn in chat.turns[1:]] == [both.native]
    for condition, answer in zip(("native", "stair"), both, strict=True):
        del chat.turns[1:]
        assert chat.ask(ASKED[1], condition) == answer
    assert (both.native.bank_entries, both.stair.bank_entries) == (0, chat.turns[0].segment.tokens)
    assert chat.bank.turns == 2
    assert chat.bank.entries == sum(turn.segment.tokens for turn in chat.turns)


def test_the_stream_is_the_response(chat: Conversation) -> None:
    parts: list[str] = []
    answer = chat.ask(ASKED[0], stream=parts.append)
    assert len(parts) > 1
    assert "".join(parts) == answer.response


def test_an_interrupted_answer_leaves_no_trace(chat: Conversation) -> None:
    first = chat.ask(ASKED[0])

    def interrupt(part: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        chat.ask(ASKED[1], stream=interrupt)
    assert [turn.answer for turn in chat.turns] == [first]
    expected = chat.ask(ASKED[1])
    del chat.turns[:]
    assert (chat.ask(ASKED[0]), chat.ask(ASKED[1])) == (first, expected)


def test_a_saved_conversation_continues_equally(
    chat: Conversation, model: Path, controller: Path, tmp_path: Path
) -> None:
    chat.ask(ASKED[0])
    chat.ask(ASKED[1], "native")
    chat.save(tmp_path)
    again = Conversation.load(model, controller, tmp_path, dtype="float32")
    assert again.bank == chat.bank
    assert again.ask(ASKED[2]) == chat.ask(ASKED[2])
    kept = json.loads((tmp_path / "conversation.json").read_text())
    (tmp_path / "conversation.json").write_text(json.dumps(kept | {"trained": ["other", None]}))
    with pytest.raises(ValueError, match="was saved with another controller"):
        Conversation.load(model, controller, tmp_path, dtype="float32")


def test_a_controller_of_another_model_is_rejected(controller: Path, model: Path) -> None:
    other = BACKBONES / "tiny-qwen3.5-9b"
    with pytest.raises(ValueError, match=r"this reflector (is for|belongs to)"):
        Conversation.load(other, controller)


def test_a_history_beyond_the_context_is_rejected(chat: Conversation) -> None:
    with pytest.raises(ValueError, match="begin a new one"):
        chat.ask("7 + " * 10_000)
    assert chat.turns == []


@pytest.mark.parametrize("left", ["adapter_config.json", "README.md"])
def test_a_missing_adapter_is_named(controller: Path, model: Path, tmp_path: Path, left: str) -> None:
    """Whether one of its files or only the card says that there was one."""
    (tmp_path / "controller.safetensors").symlink_to(controller / "controller.safetensors")
    (tmp_path / left).write_text("---\nlibrary_name: peft\n---\n")
    with pytest.raises(ValueError, match="holds no adapter: there is no adapter_"):
        Conversation.load(model, tmp_path)


def test_native_has_no_adapter(tmp_path: Path) -> None:
    model = BACKBONES / "tiny-qwen3-4b"
    torch.manual_seed(0)
    settings = LoraConfig(r=2, lora_alpha=16, target_modules=["q_proj", "down_proj"], init_lora_weights=False)
    get_peft_model(load_model(model, dtype=torch.float32, device="cpu"), settings).save_pretrained(str(tmp_path))
    chat = Conversation.load(model, tmp_path, dtype="float32", max_new_tokens=8)
    both = chat.compare(ASKED[0])
    del chat.turns[:]
    assert chat.ask(ASKED[0]) == both.stair
    architecture = read_architecture(model)
    reflector = Reflector.draw(LAYERS, architecture.query_heads, architecture.head_dim, seed=1)
    reflector.save(tmp_path / "plain" / "controller.safetensors", architecture=architecture)
    plain = Conversation.load(model, tmp_path / "plain", dtype="float32", max_new_tokens=8)
    assert plain.ask(ASKED[0], "native") == both.native
    assert both.stair.response_ids != both.native.response_ids
