"""A run's folder as the replay finds it: a random model, and what the stages before wrote with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerFast

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.resolve import dump, load_run, resolve
from tests.by_hand import by_hand

ROOT = Path(__file__).parents[2]
MODEL = "qwen3-4b-instruct"


def make_run(folder: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast) -> RunPaths:
    """Makes everything that the replay reads by the stages' own commands: data, sessions, preflight, T1 and Native."""
    model.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    stop = tokenizer.convert_tokens_to_ids(["<|im_end|>", "<|endoftext|>"])
    (folder / "model" / "generation_config.json").write_text(json.dumps({"eos_token_id": stop}))
    backbone = {"path": str(folder / "model"), "thinking": True}
    # The smoke run's sizes: two sessions of four paths, 8 problems, 72 replays.
    settings: dict[str, Any] = {
        "run": "smoke",
        "models": {MODEL: backbone | {"evaluation_sampling": {"max_new_tokens": 12}}},
        "controllers": {key: {"layers": [1, 3]} for key in ("stair", "bank_free", "lora_stair")},
        "transformers": {"batch_width": 16},
        "replay": {"layers": [1], "analysis": {"reported_layer": 1}},
    }
    config, paths = resolve(ROOT, settings), RunPaths(folder / "run")
    paths.folder.mkdir(parents=True)
    paths.resolved.write_text(dump(config))
    run(paths, "raw", "--name", "math500")
    run(paths, "benchmark", "--benchmark", "math500")
    run(paths, "evaluation-sessions", "--benchmark", "math500")
    run(paths, "preflight-model", "--model", MODEL)
    for condition in ("vanilla", "native"):
        where = ("--model", MODEL, "--benchmark", "math500", "--condition", condition)
        run(paths, "evaluation-shard", *where)
        run(paths, "seal-evaluation", *where)
    return paths


def reconfigure(paths: RunPaths, **changes: Any) -> Config:
    """Changes keys of `replay` in a run that is there already."""
    config = load_run(paths.folder)
    assert config.replay is not None
    replay = config.replay.model_validate(config.replay.model_dump(mode="json") | changes)
    config = config.model_copy(update={"replay": replay})
    paths.resolved.write_text(dump(config))
    return config


def run(paths: RunPaths, *words: str) -> None:
    """Runs a command of the program in this process."""
    by_hand(words[0], "--run", str(paths.folder), *words[1:])


def replay(paths: RunPaths, *words: str) -> None:
    """Runs a step of the replay in this process: --design, --seal, or a shard."""
    steps = {"--design": "replay-design", "--seal": "seal-replay"}
    rule = steps.get(words[0], "replay-shard") if words else "replay-shard"
    run(paths, rule, "--model", MODEL, *(word for word in words if word not in steps))


def contents(paths: RunPaths) -> dict[str, bytes]:
    """The bytes of the replay's tables and files of states."""
    folder = paths.replay_checksums(MODEL).parent
    files = [*folder.glob("*.parquet"), *folder.glob("*.sha256"), *folder.rglob("*.safetensors")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(files)}
