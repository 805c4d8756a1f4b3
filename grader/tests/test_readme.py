"""README.md: its examples print what it says, mpmath alone beside it, and its adapters fit their libraries' calls."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from labelled import PAIRS

import answer_grader

FOLDER = Path(__file__).parents[1]
PAGE = (FOLDER / "README.md").read_text(encoding="utf-8")
PACKAGES = ("mpmath",)


def fenced(kind: str) -> list[str]:
    """The page's code blocks of one kind."""
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)


def adapter(name: str) -> dict[str, object]:
    """The names that the example with a function or class defines."""
    (code,) = (each for each in fenced("python") if f"\ndef {name}(" in each or f"\nclass {name}(" in each)
    names: dict[str, object] = {}
    exec(code, names)
    return names


def test_the_benchmark_reports_its_progress_and_the_sum_of_the_kinds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = importlib.util.spec_from_file_location("benchmark", FOLDER / "benchmark.py")
    assert spec is not None
    assert spec.loader is not None
    benchmark = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "benchmark", benchmark)
    spec.loader.exec_module(benchmark)
    pairs = [*PAIRS[:3], next(pair for pair in PAIRS if pair["kind"] == "integer")]
    source = tmp_path / "few.jsonl"
    source.write_text("".join(json.dumps(pair) + "\n" for pair in pairs), encoding="utf-8")
    monkeypatch.setattr(benchmark, "GRADERS", {"answer-grader": benchmark.own_verdicts})
    monkeypatch.setattr(benchmark, "CHUNK", 2)
    monkeypatch.setattr(sys, "argv", ["benchmark.py", str(source)])
    benchmark.main()
    printed = capsys.readouterr()
    assert re.findall(r"few\.jsonl, (\w+): (\d) pairs", printed.out) == [("math", "3"), ("integer", "1"), ("all", "4")]
    assert printed.out.count("| answer-grader | 100.0% | 0 / 0 |") == 3
    assert re.findall(r"answer-grader: (\d of \d \w+), \d+ s", printed.err) == [
        *("2 of 3 math", "3 of 3 math", "1 of 1 integer"),
    ]


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """The environment of the grader with mpmath and no other package."""
    folder = tmp_path / "packages"
    folder.mkdir()
    (folder / "answer_grader").symlink_to(Path(answer_grader.__file__).parent)
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        (folder / name).symlink_to(Path(spec.origin).parent)
    return {**os.environ, "PYTHONPATH": str(folder)}


def run_python(words: list[str], environment: dict[str, str], folder: Path) -> str:
    """What a fresh interpreter without site packages prints."""
    command = [sys.executable, "-S", *words]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_the_examples_print_the_documented_lines(bare: dict[str, str], tmp_path: Path) -> None:
    examples = re.findall(r"```python\n((?:(?!```).)*?)```\s+(?:It prints:\s+)?```text\n(.*?)```", PAGE, re.DOTALL)
    assert len(examples) == 3
    for code, printed in examples:
        assert run_python(["-c", code], bare, tmp_path) == printed


def test_the_documented_file_is_graded_as_documented(tmp_path: Path, bare: dict[str, str]) -> None:
    responses, graded = fenced("json")
    (tmp_path / "responses.jsonl").write_text(responses, encoding="utf-8")
    run_python(["-m", "answer_grader", "responses.jsonl", "graded.jsonl"], bare, tmp_path)
    lines = (tmp_path / "graded.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == [json.loads(line) for line in graded.splitlines()]


def test_rewards() -> None:
    """As TRL and verl call them."""
    reward = adapter("accuracy_reward")["accuracy_reward"]
    chats = [[{"role": "assistant", "content": rf"\boxed{{{answer}}}"}] for answer in ("0.5", "2")]
    asked = {"prompts": ["", ""], "completion_ids": [[1], [2]], "solution": ["1/2", "1/2"]}
    assert reward(completions=chats, **asked, trainer_state=None) == [1.0, 0.0]  # type: ignore[operator]
    texts = [chat[0]["content"] for chat in chats]
    assert reward(completions=texts, **asked, problem=["Half?", "Half?"]) == [1.0, 0.0]  # type: ignore[operator]

    with pytest.raises(ValueError, match="the reference is missing"):
        reward(completions=texts, **{**asked, "solution": ["1/2", None]})  # type: ignore[operator]

    score = adapter("compute_score")["compute_score"]
    row = {"data_source": "math", "ground_truth": "1/2", "extra_info": {"question": "Half?"}}
    assert score(**row, solution_str=r"\boxed{0.5}") == 1.0  # type: ignore[operator]
    assert score(**row, solution_str="0.5 is in the prose") == 0.0  # type: ignore[operator]
    with pytest.raises(ValueError, match="the reference is missing"):
        score(**{**row, "ground_truth": ""}, solution_str=r"\boxed{0.5}")  # type: ignore[operator]


def test_trl_trains_with_the_reward(tmp_path: Path) -> None:
    """A model whose only word is a box: right for one problem, wrong for the other."""
    trl = pytest.importorskip("trl")
    from datasets import Dataset
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    words = Tokenizer(models.WordLevel({r"\boxed{2}": 0, "<end>": 1, "<unknown>": 2}, unk_token="<unknown>"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<end>", pad_token="<end>")
    sizes = dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1, num_key_value_heads=1)
    config = Qwen3Config(vocab_size=3, head_dim=8, eos_token_id=1, pad_token_id=1, **sizes)
    trainer = trl.GRPOTrainer(
        model=Qwen3ForCausalLM(config),
        processing_class=tokenizer,
        reward_funcs=adapter("accuracy_reward")["accuracy_reward"],
        train_dataset=Dataset.from_list(
            [{"prompt": "x", "solution": str(number), "problem": "What is it?"} for number in (2, 3)]
        ),
        args=trl.GRPOConfig(
            output_dir=str(tmp_path),
            max_steps=2,
            per_device_train_batch_size=2,
            num_generations=2,
            max_completion_length=2,
            generation_kwargs={"suppress_tokens": [1, 2]},
            use_cpu=True,
            bf16=False,
            logging_steps=1,
            report_to=[],
            save_strategy="no",
        ),
    )
    trainer.train()
    logged = [row["rewards/accuracy_reward/mean"] for row in trainer.state.log_history if "reward" in row]
    assert sorted(map(float, logged)) == [0.0, 1.0]


def test_harnesses() -> None:
    """As lm-evaluation-harness and lighteval call them."""
    process = adapter("process_results")["process_results"]
    row = {"problem": "Half?", "answer": "1/2"}
    assert process(row, [r"\boxed{0.5}"]) == {"exact_match": 1.0}  # type: ignore[operator]

    pytest.importorskip("lighteval")
    metric = adapter("Graded")["graded"]
    doc = SimpleNamespace(get_golds=lambda: ["1/2"], query="Half?")
    response = SimpleNamespace(final_text=[r"\boxed{0.5}", r"\boxed{2}"])
    assert metric.sample_level_fn.compute(doc=doc, model_response=response) == 0.5  # type: ignore[attr-defined]
