"""Trains the small backbones of the tiny run again: the folders in `backbones/`, which come with the project.

    python tools/tiny_backbones.py                    # trains all three, in some minutes, and compares
    python tools/tiny_backbones.py tiny-qwen3-4b      # one of them
    python tools/tiny_backbones.py --write            # and puts them into backbones/, with their card

Another processor rounds sums in another way and trains others. New weights change the tiny run: its numbers in docs/tiny.md,
and the digests in tests/tiny/test_shipped.py.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import torch
from answer_grader import Item, Kind, grade_many
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor
from torch.nn import functional as F
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from stair.config.model import Config
from stair.config.resolve import resolve
from stair.core import LETTERS, TURNS, user_message
from stair.engines.base import Request
from stair.engines.transformers import TransformersEngine
from stair.models import delta_kernels
from stair.models.load import load_model
from stair.models.model_folder import model_revision
from stair.models.turn_markers import CHATML
from stair.records.manifest import hardware
from stair.records.seeds import hash_order, seed_of
from stair.records.text_tables import markdown_table
from stair.sessions.backbone import sampling_settings
from stair.sessions.renderer import Exchange, Renderer
from stair.tiny.generated_sets import benchmark_problems
from stair.tiny.problems import GeneratedProblem, draw, seeded

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "backbones"


@dataclass(frozen=True)
class Shape:
    """One backbone: for which model of the tiny run it stands, its sizes, and how it is trained."""

    model: str
    hybrid: bool
    hidden_size: int
    head_dim: int
    ffn: int
    steps: int
    batch_tokens: int
    learning_rate: float
    layers: int = 12
    heads: int = 4
    kv_heads: int = 2

    @property
    def thinking(self) -> bool:
        """Whether its responses begin with reasoning: those of the hybrids do."""
        return self.hybrid


SHAPES = {
    "tiny-qwen3-4b": Shape("qwen3-4b-instruct", False, 64, 16, 192, 540, 1024, 0.004),
    "tiny-qwen3.5-4b": Shape("qwen3.5-4b", True, 64, 32, 192, 800, 512, 0.003),
    "tiny-qwen3.5-9b": Shape("qwen3.5-9b", True, 80, 32, 256, 800, 512, 0.003),
}
SEEDS = ("first", "second", "third")
"""The next one is tried where an accuracy is out of bounds; the last one is kept."""

# ---------------------------------------------------------------- what they learn

Message = dict[str, str]


# One conversation holds one to four problems under one kind of prompt, as in the pipeline: the training prompt, the mathematical
# evaluation prompt, or the multiple-choice one. With history a share of the problems is left without an answer: what history
# costs a large model has many causes, a small one needs one, and this one is decided by a response's first token, within reach of
# a read during prefill. Models that were trained without it gave STAIR too little to learn.


@dataclass(frozen=True)
class BackbonePrompts:
    """The wordings that a backbone learns to answer; in each, ``{problem}`` stands for the problem's text."""

    training: str
    mathematical: str
    choice: str


@dataclass(frozen=True)
class Mixture:
    """What share of the conversations has which shape.

    ``turns``: relative weights of one, two, three and four problems. ``choice``: share under the multiple-choice
    prompt; the rest is shared equally by the training and the mathematical prompt. ``left_out``: what share of the
    problems after a conversation's first is left without an answer, under the training, the mathematical and the
    multiple-choice prompt. ``rambling``: share of the responses of a thinking model that think for ``rambling_steps``
    steps more than they need. ``single_turn_start``: share of the updates, from the first, that see conversations of one
    problem only: copying is learned there soonest.
    """

    turns: tuple[float, float, float, float] = (0.25, 0.25, 0.25, 0.25)
    choice: float = 0.25
    left_out: tuple[float, float, float] = (0.7, 0.15, 0.0)
    rambling: float = 0.05
    rambling_steps: int = 8
    single_turn_start: float = 0.4

    @classmethod
    def usual(cls, thinking: bool) -> Mixture:
        """A thinking model starts longer on single problems: in longer conversations only its last response is learned.

        It also needs fewer multiple choices, where it would leave too little to get wrong.
        """
        return cls(choice=0.2, single_turn_start=0.6) if thinking else cls()


def conversation(prompts: BackbonePrompts, mixture: Mixture, thinking: bool, *names: object) -> list[Message]:
    """The conversation that belongs to ``names``: user and assistant messages by turns, thinking included."""
    rng = seeded("conversation", *names)
    turns = rng.choices((1, 2, 3, 4), mixture.turns)[0]
    choice = rng.random() < mixture.choice
    kind = 2 if choice else rng.randrange(2)
    template = (prompts.training, prompts.mathematical, prompts.choice)[kind]
    messages: list[Message] = []
    for turn in range(turns):
        if choice:
            problem = lettered(draw("gpqa_diamond", *names, turn), rng.sample(range(4), 4))
        else:
            problem = draw("backbone", *names, turn)
        if turn and rng.random() < mixture.left_out[kind]:
            problem = replace(problem, steps="Enough", answer="")
        answer = response(problem, rng, mixture) if thinking else problem.solution
        messages.append({"role": "user", "content": user_message(template, problem.text)})
        messages.append({"role": "assistant", "content": answer})
    return messages


def lettered(problem: GeneratedProblem, order: Sequence[int]) -> GeneratedProblem:
    """A multiple-choice question with its options written out, the answer being a letter.

    `order` is a permutation of 0..3 over (right option, wrong options...): its first entry becomes option A.
    """
    assert len(problem.incorrect) == 3, "not a multiple-choice question"
    assert sorted(order) == [0, 1, 2, 3]
    options = (problem.answer, *problem.incorrect)
    lines = [f"{letter}. {options[index]}" for letter, index in zip(LETTERS, order, strict=True)]
    right = list(order).index(0)
    # Each option in turn is held against the result, up to the right one: subtraction is learned anyway, looking up is not.
    tried = [
        f"{lines[i]} - {problem.answer} = {int(options[order[i]]) - int(problem.answer)}" for i in range(right + 1)
    ]
    return replace(
        problem,
        text="\n".join([problem.text, *lines]),
        steps="\n".join([problem.steps, *tried]),
        answer=LETTERS[right],
        incorrect=(),
    )


def response(problem: GeneratedProblem, rng: Random, mixture: Mixture) -> str:
    """A thinking model's response, from after ``<think>`` and its line end to before the end marker."""
    steps = problem.steps
    if rng.random() < mixture.rambling:
        doubts = [f"Wait, is it {rng.randint(0, 99)}? No." for _ in range(mixture.rambling_steps)]
        steps = " ".join([steps, *doubts])
    return f"{steps}\n</think>\n\n\\boxed{{{problem.answer}}}"


# ---------------------------------------------------------------- the tokenizer

END_OF_TEXT = "<|endoftext|>"
SPECIAL = (END_OF_TEXT, CHATML.start, CHATML.end)
THINKING_TOKENS = ("<think>", "</think>")
"""As in Qwen's tokenizers, single ids without being "special": decoding keeps them."""


def chat_template(thinking: bool) -> str:
    """The project's template: that of a shipped backbone."""
    folder = FOLDER / ("tiny-qwen3.5-4b" if thinking else "tiny-qwen3-4b")
    return (folder / "chat_template.jinja").read_text(encoding="utf-8")


def train_tokenizer(texts: Iterable[str], *, vocabulary: int, thinking: bool) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE of ``vocabulary`` entries on ``texts``; deterministic.

    Digits, line ends and the letters of options stand alone: a digit is one token wherever it is, and what ends a
    prompt never merges with the first characters of a response. Merges may cross spaces, so a fixed instruction costs
    a few tokens.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"(?<=\n)[A-D]\. |[0-9]|\n|[^0-9\n]+"), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - len(SPECIAL) - len(THINKING_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
        max_token_length=200,
    )
    # Tokens of their own must not be learned as merges too.
    own = re.compile("|".join(map(re.escape, (*SPECIAL, *THINKING_TOKENS))))
    tokenizer.train_from_iterator((piece for text in texts for piece in own.split(text)), trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in THINKING_TOKENS])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=CHATML.end,
        pad_token=END_OF_TEXT,
        clean_up_tokenization_spaces=False,
        model_max_length=4096,
    )
    fast.chat_template = chat_template(thinking)
    return fast


def save_tokenizer(tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write ``tokenizer.json``, ``tokenizer_config.json`` and ``chat_template.jinja`` into ``folder``."""
    tokenizer.save_pretrained(folder)
    config = folder / "tokenizer_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()), indent=2, sort_keys=True) + "\n")


class Example(NamedTuple):
    """One training sequence: token ids, and for each whether it is a target (a response's tokens, end marker too)."""

    ids: list[int]
    targets: list[bool]


def encode(tokenizer: PreTrainedTokenizerFast, thinking: bool, conversations: Sequence[list[Message]]) -> list[Example]:
    """Conversations in the tokenizer's template, with the tokens that are learned.

    Without thinking, every response of a conversation is a target. With thinking, a response's own thinking is absent
    from the history of the turns after it, so only the last response is.
    """
    header: list[int] = tokenizer.encode(CHATML.header("assistant"), add_special_tokens=False)
    end_id, width = tokenizer.get_vocab()[CHATML.end], len(header)
    texts = [str(tokenizer.apply_chat_template(messages, tokenize=False)) for messages in conversations]
    examples = []
    for ids in tokenizer(texts, add_special_tokens=False)["input_ids"]:
        starts = [i + width for i in range(len(ids) - width) if ids[i : i + width] == header]
        targets = [False] * len(ids)
        for start in starts[-1:] if thinking else starts:
            # The generation prefix of a thinking model supplies `<think>` and its line end.
            begin, end = start + 2 if thinking else start, ids.index(end_id, start) + 1
            targets[begin:end] = [True] * (end - begin)
        examples.append(Example(ids, targets))
    return examples


# ---------------------------------------------------------------- the network

_NORM_GAIN = 1.5
"""With unit norms the attention logits of a 16-dimensional head cannot exceed 4, too flat to copy a token."""


def build(shape: Shape, vocabulary: int, special: Sequence[int]) -> Any:
    """A freshly initialised causal language model, fp32; ``special`` holds the ids of padding and end of turn.

    A hybrid (Qwen3.5) has full attention, with an output gate, in every fourth layer (3, 7, 11, ... from zero) and Gated
    DeltaNet in the others; its rotary embedding turns the first quarter of a head's dimensions.
    """
    pad, end = special
    common: dict[str, Any] = {
        "vocab_size": vocabulary,
        "hidden_size": shape.hidden_size,
        "intermediate_size": shape.ffn,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "tie_word_embeddings": True,
        "max_position_embeddings": 4096,
        "initializer_range": shape.hidden_size**-0.5,
        "eos_token_id": end,
        "pad_token_id": pad,
        "bos_token_id": None,
        "dtype": "float32",
    }
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": 10_000.0}
    if not shape.hybrid:
        return _initialised(Qwen3ForCausalLM(Qwen3Config(**common, rope_parameters=rope)), _NORM_GAIN)
    from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig

    hybrid = Qwen3_5TextConfig(
        **common,
        rope_parameters={**rope, "partial_rotary_factor": 0.25},
        linear_num_key_heads=2,
        linear_num_value_heads=2,
        linear_key_head_dim=16,
        linear_value_head_dim=16,
    )
    # Qwen3.5's norm multiplies by one plus its weight.
    return _initialised(Qwen3_5ForCausalLM(hybrid), _NORM_GAIN - 1.0)


def _initialised(model: Any, norm: float) -> Any:
    """``model`` with starting values from which a few hundred updates suffice; ``norm`` is that of query and key norms.

    A token's own embedding must not drown in what twelve fresh blocks add to the residual stream, so embeddings start
    at twice the usual scale and the blocks' outputs at half of it.
    """
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("embed_tokens.weight"):
                parameter.mul_(2.0)
            elif name.endswith(("o_proj.weight", "out_proj.weight", "down_proj.weight")):
                parameter.mul_(0.5)
            elif name.endswith(("q_norm.weight", "k_norm.weight")):
                parameter.fill_(norm)
            elif name.endswith("A_log"):
                # Transformers' start forgets within a token; with this one the heads remember for 1 to 170 tokens.
                parameter.copy_(torch.linspace(-4.0, 1.0, parameter.numel()))
            elif name.endswith("dt_bias"):
                parameter.fill_(-1.0)
    return model


@contextmanager
def short_chunks(size: int = 16) -> Iterator[None]:
    """Within it, Gated DeltaNet's PyTorch form works in chunks of ``size`` tokens instead of 64: the same function.

    The conversations have some 40 tokens, so that most of a chunk of 64 would be padding; a quarter of the time is saved.
    """
    from transformers.models.qwen3_5 import modeling_qwen3_5

    original = modeling_qwen3_5.torch_chunk_gated_delta_rule
    modeling_qwen3_5.torch_chunk_gated_delta_rule = partial(original, chunk_size=size)
    try:
        yield
    finally:
        modeling_qwen3_5.torch_chunk_gated_delta_rule = original


# ---------------------------------------------------------------- the training

_CHUNK = 256  # conversations drawn, sorted by length and cut into batches together
_TOKENIZER_TEXTS = 2000
_VOCABULARY = 768
_WARMUP = 30  # updates up to the peak learning rate, which then falls linearly to zero


def train(folder: Path, shape: Shape, prompts: BackbonePrompts, seed: str) -> dict[str, Any]:
    """Train a backbone and write its folder: FP32, rounded to BF16 at the end.

    The bytes are a function of the arguments, the machine and its number of threads. Torch's global generator stays unchanged.

    Returns the measurements ``parameters``, ``tokens`` and ``final_loss``: mean cross-entropy in nats over the last tenth of the
    updates.
    """
    mixture = Mixture.usual(shape.thinking)
    tokenizer = _tokenizer(shape, prompts, mixture, seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seeded("initialisation", seed).getrandbits(63))
        pad, end = (tokenizer.get_vocab()[token] for token in (END_OF_TEXT, CHATML.end))
        model = build(shape, len(tokenizer), (pad, end))
        with short_chunks():
            losses, tokens = _fit(model, _batches(shape, prompts, mixture, seed, tokenizer), shape)
    model.generation_config = GenerationConfig(do_sample=True, eos_token_id=end, pad_token_id=pad)
    model.to(torch.bfloat16).save_pretrained(folder)
    save_tokenizer(tokenizer, folder)
    last = losses[-max(1, len(losses) // 10) :]
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return {"parameters": parameters, "tokens": tokens, "final_loss": sum(last) / len(last)}


def _tokenizer(shape: Shape, prompts: BackbonePrompts, mixture: Mixture, seed: str) -> PreTrainedTokenizerFast:
    # Half of the text is multiple choice, so that the names among the options become single tokens.
    mixture = replace(mixture, choice=0.5)
    turns = (
        message["content"]
        for index in range(_TOKENIZER_TEXTS)
        for message in conversation(prompts, mixture, shape.thinking, seed, "tokenizer", index)
    )
    texts = (piece for turn in turns for piece in (turn, "user\n", "assistant\n"))
    return train_tokenizer(texts, vocabulary=_VOCABULARY, thinking=shape.thinking)


def _batches(
    shape: Shape, prompts: BackbonePrompts, mixture: Mixture, seed: str, tokenizer: PreTrainedTokenizerFast
) -> Iterator[tuple[Tensor, Tensor]]:
    """Endless batches of similar length: ids int64 ``[rows, tokens]``, right-padded, and targets bool, same shape."""
    chunk, batch = 0, 0
    while True:
        names = range(chunk * _CHUNK, (chunk + 1) * _CHUNK)
        single_turn = batch < mixture.single_turn_start * shape.steps
        shown = replace(mixture, turns=(1, 0, 0, 0)) if single_turn else mixture
        drawn = [conversation(prompts, shown, shape.thinking, seed, index) for index in names]
        examples = sorted(encode(tokenizer, shape.thinking, drawn), key=lambda example: len(example.ids))
        groups: list[list[Example]] = [[]]
        for example in examples:
            if len(example.ids) * (len(groups[-1]) + 1) > shape.batch_tokens and groups[-1]:
                groups.append([])
            groups[-1].append(example)
        seeded("batches", seed, chunk).shuffle(groups)
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


def _fit(model: Any, batches: Iterator[tuple[Tensor, Tensor]], shape: Shape) -> tuple[list[float], int]:
    """The loss of each update, and the tokens of all."""
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.98), weight_decay=0.0, fused=True)
    (group,) = optimizer.param_groups
    losses, tokens = [], 0
    for step, (ids, targets) in enumerate(islice(batches, shape.steps)):
        # A linear warm-up within a linear fall to zero.
        group["lr"] = shape.learning_rate * min(1.0, (step + 1) / _WARMUP) * (1 - step / shape.steps)
        # No attention mask: the padding is on the right, and causal layers hide it from real tokens.
        hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state
        chosen = targets[:, 1:]
        loss = F.cross_entropy(model.lm_head(hidden[:, :-1][chosen]), ids[:, 1:][chosen])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        tokens += ids.numel()
    model.eval()
    return losses, tokens


# ---------------------------------------------------------------- the accuracy, which must lie between chance and perfect

_SESSIONS = 48


def measure(config: Config, model: str, folder: Path) -> dict[str, float]:
    """Native accuracies (fractions) at T1 to T4 of every generated benchmark, by `<benchmark> T<turn>`.

    The same number of sessions of each benchmark's own problems, under the evaluation's prompts and sampling.
    """
    settings = config.models[model]
    renderer = Renderer.load(folder, thinking=settings.thinking)
    network = load_model(folder, dtype=torch.float32, device="cpu", attention="sdpa")
    sessions = [
        _Session(key, benchmark.kind, config.prompts[benchmark.prompt], number, problems)
        for key, benchmark in config.benchmarks.items()
        if benchmark.tiny is not None
        for number, problems in enumerate(_sessions(key, benchmark.tiny))
    ]
    # A turn of all benchmarks is one batch, because a step of more rows costs hardly more.
    engine = TransformersEngine(
        network,
        tokens=renderer.tokens,
        batch_width=len(sessions),
        prefill_width=config.transformers.prefill_width,
        cache_block=config.transformers.cache_block,
    )
    verdicts: dict[str, list[bool]] = {
        f"{each.benchmark} T{turn + 1}": [] for each in sessions for turn in range(TURNS)
    }
    for turn in range(TURNS):
        session_of = {str(place): session for place, session in enumerate(sessions)}
        items, names = [], []
        for completion in engine.run(
            [_request(key, each, turn, settings, renderer) for key, each in session_of.items()]
        ):
            session = session_of[completion.key]
            problem = session.problems[turn]
            answer = renderer.visible_answer(completion.response_ids)
            session.history.append(Exchange(session.user(turn), answer))
            text = renderer.text(completion.response_ids)
            items.append(Item(text, problem.answer, session.kind, problem.text))
            names.append(f"{session.benchmark} T{turn + 1}")
        for name, verdict in zip(names, grade_many(items, workers=0), strict=True):
            verdicts[name].append(verdict.correct)
    return {name: sum(each) / len(each) for name, each in verdicts.items()}


@dataclass
class _Session:
    """Problems of a benchmark in one conversation."""

    benchmark: str
    kind: Kind
    prompt: str
    number: int
    problems: list[GeneratedProblem]
    history: list[Exchange] = field(default_factory=list)

    def user(self, turn: int) -> str:
        return user_message(self.prompt, self.problems[turn].text)


def _sessions(benchmark: str, size: int) -> list[list[GeneratedProblem]]:
    """The problems of a benchmark's sessions. Every turn has its own order, and a small benchmark repeats in further orders."""
    problems = [_with_options(problem) for problem in benchmark_problems(benchmark, size)]
    texts = [problem.text for problem in problems]
    sessions: list[list[GeneratedProblem]] = []
    for repetition in range(-(-_SESSIONS // size)):
        columns = [hash_order(problems, "acceptance", benchmark, turn, repetition, key=texts) for turn in range(TURNS)]
        sessions += [list(row) for row in zip(*columns, strict=True)]
    return sessions[:_SESSIONS]


def _request(key: str, session: _Session, turn: int, settings: Any, renderer: Renderer) -> Request:
    sampling = settings.sampling_for(session.benchmark)
    return Request(
        key=key,
        prompt_ids=tuple(renderer.prompt_ids(session.history, session.user(turn))),
        sampling=sampling_settings(sampling),
        seed=seed_of("acceptance", session.benchmark, turn + 1, session.number),
        max_new_tokens=sampling.max_new_tokens,
        stop_ids=renderer.stop_ids,
    )


def _with_options(problem: GeneratedProblem) -> GeneratedProblem:
    """A multiple-choice problem with its options in an order of its own."""
    return lettered(problem, hash_order(range(4), "acceptance", problem.text)) if problem.incorrect else problem


def _outside(config: Config, accuracy: dict[str, float]) -> list[str]:
    """The benchmarks and turns with an accuracy out of bounds; the lower bound is higher if a guess is right once in four."""
    least = {name: 0.30 if config.benchmarks[name.split()[0]].kind == "choice" else 0.15 for name in accuracy}
    return [name for name, share in accuracy.items() if not least[name] <= share <= 0.95]


# ---------------------------------------------------------------- the command


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("names", nargs="*", help=f"of {', '.join(SHAPES)}; all of them without one")
    options.add_argument("--write", action="store_true", help="replace all of backbones/")
    chosen = options.parse_args()
    names = chosen.names or [*SHAPES]
    if unknown := set(names) - set(SHAPES):
        options.error(f"there is no {', '.join(unknown)}; there are {', '.join(SHAPES)}")
    if chosen.write and set(names) != set(SHAPES):
        options.error("--write replaces all backbones and their card; give no names")
    torch.set_num_threads(1)
    delta_kernels.do_without()  # before Transformers' code of Qwen3.5 is imported
    config = resolve(ROOT, {"run": "tiny"})
    prompts = BackbonePrompts(config.prompts["training"], config.prompts["math"], config.prompts["choice"])
    with tempfile.TemporaryDirectory() as made:
        trained = {name: _accepted(config, name, prompts, Path(made) / name) for name in names}
        for name, facts in trained.items():
            shipped = model_revision(FOLDER / name, None)
            unequal = (
                "not as shipped, as expected on another kind of processor; the shipped accuracies: backbones/README.md"
            )
            print(f"{name}: {facts['digest']}, {'as shipped' if facts['digest'] == shipped else unequal}")
        if chosen.write:
            for name in names:
                shutil.copytree(Path(made) / name, FOLDER / name, dirs_exist_ok=True)
            (FOLDER / "README.md").write_text(_card(trained), encoding="utf-8")
    return 0


def _accepted(config: Config, name: str, prompts: BackbonePrompts, folder: Path) -> dict[str, Any]:
    """Trains a backbone with the first seed whose accuracies are within bounds; its measurements."""
    shape = SHAPES[name]
    for seed in SEEDS:
        facts = train(folder, shape, prompts, seed)
        accuracy = measure(config, shape.model, folder)
        print(f"{name}, seed {seed}: " + ", ".join(f"{key} {value:.0%}" for key, value in accuracy.items()), flush=True)
        if not (outside := _outside(config, accuracy)):
            break
        print(f"warning: accuracy out of bounds (15%, for choices 30%, to 95%): {', '.join(outside)}", flush=True)
    return {"seed": seed, "accuracy": accuracy, "digest": model_revision(folder, None), **facts}


def _card(trained: dict[str, dict[str, Any]]) -> str:
    """The model card of the shipped weights."""
    intro = """# Small backbones of the tiny run

Language models of about a million parameters: Transformers' own Qwen3 and Qwen3.5 classes,
trained on generated arithmetic and multiple-choice problems. The tiny run loads them like any
other model folder. They replace the models of the paper whose names they have, and show
that every stage runs; their numbers say nothing about the paper. They are of no other use.

Weights are BF16, rounded at the end of a training in FP32. The data are generated by
`stair/tiny`, the license is Apache-2.0. `python tools/tiny_backbones.py` trains them again, in
some minutes, and compares. Another processor rounds sums in another way and trains others. With
`--write` the new ones replace these; finished tiny runs are then stale.
"""
    head = ("folder", "parameters", "seed", "tokens seen", "loss at the end (nats)", "SHA-256 of the folder")
    rows = [
        (name, f"{one['parameters']:,}", one["seed"], f"{one['tokens']:,}", f"{one['final_loss']:.4f}", f"`{one['digest']}`")
        for name, one in trained.items()
    ]  # fmt: skip
    between = """
Share of right answers of the unmodified model (Native) on 48 sessions of a benchmark, in percent.
With history a share of the problems is left unanswered, because the models were trained to.
"""
    shares = [
        (name, benchmark, *(f"{one['accuracy'][f'{benchmark} T{turn}']:.0%}"[:-1] for turn in range(1, TURNS + 1)))
        for name, one in trained.items()
        for benchmark in dict.fromkeys(key.split()[0] for key in one["accuracy"])
    ]
    turns = markdown_table(("folder", "benchmark", "T1", "T2", "T3", "T4"), shares, right=range(2, 6))
    versions = f"python {sys.version.split()[0]}, torch {torch.__version__}"
    made = f"\nMade on {hardware()['processor']} with {versions}, one thread a model.\n"
    return "\n".join([intro, *markdown_table(head, rows, right=(1, 3, 4)), between, *turns, made])


if __name__ == "__main__":
    sys.exit(main())
