"""A run's folder as training finds it: a random model of four layers, recorded responses, sessions of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from stair.config.paths import RunPaths
from stair.config.resolve import dump, load_run, merge, resolve
from stair.records.rows import Rollout
from stair.records.schemas import ROLLOUTS, TRAINING_POOL, TRAINING_SESSIONS
from stair.records.tables import write_table
from stair.stages.sessions.training_sessions import training_sessions

ROOT = Path(__file__).parents[2]
MODEL = "qwen3-4b-instruct"
RECORDS, HELD_OUT, PER_UPDATE = 20, 8, 2
UPDATES = RECORDS // PER_UPDATE

# The curves that are kept beside the tests have these rates, whatever the tiny run has.
_LAYERS = {"layers": [1, 3], "optimizer": {"learning_rate": 0.006}}
_ADAPTER = {"adapter": {"warmup_updates": 2, "optimizer": {"learning_rate": 0.002}}}


def make_run(
    folder: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, changes: dict[str, Any]
) -> RunPaths:
    """Writes everything that a training reads into `folder`; `changes` go into the configuration."""
    model.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    stop = tokenizer.convert_tokens_to_ids(["<|im_end|>", "<|endoftext|>"])
    (folder / "model" / "generation_config.json").write_text(json.dumps({"eos_token_id": stop}))
    settings = {
        "run": "tiny",
        "select": {"models": [MODEL]},
        "models": {MODEL: {"path": str(folder / "model")}},
        "controllers": {
            "stair": _LAYERS,
            "bank_free": _LAYERS | {"models": [MODEL]},
            "lora": _ADAPTER,
            "lora_stair": _LAYERS | _ADAPTER,
        },
        "training": {"sessions_per_update": PER_UPDATE, "validation_sessions": 2, "validation_every": 4},
    }
    config = resolve(ROOT, merge(settings, changes))
    paths = RunPaths(folder / "run")
    paths.resolved.parent.mkdir(parents=True, exist_ok=True)
    paths.resolved.write_text(dump(config))
    _write_tables(paths, stop[0])
    return paths


def _write_tables(paths: RunPaths, stop: int) -> None:
    generator = torch.Generator().manual_seed(3)
    pool, rollouts = [], []
    for number in range(RECORDS + HELD_OUT):
        split = "train" if number < RECORDS else "validation"
        name = f"r{number:02d}"
        pool.append(
            dict(
                record_id=name,
                problem_id=f"p{number:02d}",
                problem=f"What is {number} + 1?",
                reference="1",
                split=split,
            )
        )
        for sample in range(4):
            length = int(torch.randint(3, 12, (), generator=generator))
            ids = [*torch.randint(30, 250, (length,), generator=generator).tolist(), stop]
            rollouts.append(_rollout(name, f"p{number:02d}", sample, ids))
    write_table(paths.training_pool(MODEL), TRAINING_POOL, pool)
    write_table(paths.rollouts(MODEL), ROLLOUTS, rollouts)
    for split, path in (("train", paths.training_sessions(MODEL)), ("validation", paths.validation_sessions(MODEL))):
        chosen = [row["record_id"] for row in pool if row["split"] == split]
        records = {
            name: [
                Rollout(name, row["problem_id"], row["sample"], row["response_tokens"])
                for row in rollouts
                if row["record_id"] == name
            ]
            for name in chosen
        }
        write_table(path, TRAINING_SESSIONS, training_sessions(records, "small", split))


def _rollout(record: str, problem: str, sample: int, ids: list[int]) -> dict[str, Any]:
    told = dict(engine="none", engine_version="0", attention="none", dtype="none", device="none")
    return dict(
        model=MODEL, record_id=record, problem_id=problem, sample=sample, seed=0, prompt_tokens=1,
        response_tokens=len(ids), response="", finish_reason="stop", prompt_ids_sha256="", response_ids=ids,
        **told,
    )  # fmt: skip


def train_command(paths: RunPaths, controller: str) -> list[str]:
    """The command that trains, as the workflow's rules call it."""
    inputs = [
        paths.training_pool(MODEL),
        paths.rollouts(MODEL),
        paths.training_sessions(MODEL),
        paths.validation_sessions(MODEL),
    ]
    files = [str(path.relative_to(paths.folder)) for path in inputs]
    names = load_run(paths.folder).controllers[controller].files
    outputs = [str((paths.controller(MODEL, controller) / name).relative_to(paths.folder)) for name in names]
    stair = [str(Path(sys.executable).parent / "stair"), "job", "train_controller", f"model={MODEL}"]
    return [*stair, f"controller={controller}", "--inputs", *files, "--outputs", *outputs]


def surroundings() -> dict[str, str]:
    """One thread, no warm process."""
    kept = {key: value for key, value in os.environ.items() if key not in ("STAIR_WARM_SOCKET",)}
    return kept | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}


def train(paths: RunPaths, controller: str) -> subprocess.CompletedProcess[str]:
    """Trains in a process of its own."""
    command = train_command(paths, controller)
    done = subprocess.run(command, cwd=paths.folder, env=surroundings(), capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    return done
