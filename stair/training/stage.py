"""The training stage: a controller from a model's training sessions."""

from __future__ import annotations

import csv
import shutil
import time
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path

import torch

from stair.backbones.load import load_model
from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.engines.transformers.engine import DTYPES
from stair.method import Attachment, Reflector
from stair.protocol.backbone import Backbone
from stair.records.files import write_text
from stair.records.manifest import write_manifest
from stair.records.progress import Progress
from stair.records.schemas import ROLLOUTS, TRAINING_POOL, TRAINING_SESSIONS
from stair.records.seeds import hash_order, seed_of
from stair.records.tables import read_table
from stair.training.card import card
from stair.training.loop import UpdateRecord, train, validate
from stair.training.replay import RecordedTurn, SessionReplay


def run(config: Config, paths: RunPaths, model: str, controller: str) -> None:
    """Trains one controller on one model and writes its folder."""
    started = time.monotonic()
    settings = config.controllers[controller]
    assert settings.optimizer is not None
    backbone = Backbone.open(config, paths, model)
    facts = backbone.architecture
    facts.check_controlled_layers(settings.controlled_layers)
    sessions = _sessions(config, paths, model, paths.training_sessions(model))
    held_out = _sessions(config, paths, model, paths.validation_sessions(model))
    measured = {
        "training": list(sessions.values())[: config.training.validation_sessions],
        "validation": list(held_out.values())[: config.training.validation_sessions],
    }
    if not sessions:
        raise ValueError(f"{paths.training_sessions(model)} holds no sessions")
    updates = _updates(config, sessions, settings.seed)

    device = config.transformers.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    network = load_model(
        backbone.folder, dtype=DTYPES[backbone.settings.dtype], device=device, attention=backbone.engine["attention"]
    )
    reflector = Reflector.draw(
        settings.controlled_layers, facts.query_heads, facts.head_dim, seed_of(settings.seed, "initial values", model)
    ).to(device)
    progress = Progress(paths.progress, f"training/{model}/{controller}", len(updates), "updates")
    curve: list[UpdateRecord] = []

    def told(record: UpdateRecord) -> None:
        curve.append(record)
        progress.advance(note=f"loss {record.loss:.4f}")

    with Attachment(network, settings.controlled_layers) as attachment:
        replay = SessionReplay(
            model=network,
            attachment=attachment,
            renderer=backbone.renderer,
            controller=reflector,
            smoothing=settings.smoothing,
            cross_entropy=config.training.cross_entropy,
            kl=config.training.kl,
        )
        # The same sessions before and after: updates see different ones, whose losses differ more than training changes them.
        before = {name: validate(replay, some) for name, some in measured.items()}
        train(replay, updates, settings.optimizer, told)
        after = {name: validate(replay, some) for name, some in measured.items()}

    output = paths.controller(model, controller)
    beside = output.with_name(f".{output.name}.partial")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    reflector.save(beside / "controller.safetensors", architecture=facts, model=model, controller=controller)
    _write_curve(beside / "curve.csv", curve)
    parameters = {"normals": sum(parameter.numel() for parameter in reflector.parameters())}
    told_facts = {"updates": len(updates), "training sessions": len(sessions)}
    text = card(
        controller, settings, backbone.settings, revision=backbone.revision, parameters=parameters, facts=told_facts
    )
    write_text(beside / "README.md", text)
    write_manifest(
        beside,
        stage="training",
        settings={"controller": settings.model_dump(mode="json"), "training": config.training.model_dump(mode="json")},
        model_revision=backbone.revision,
        parameters=sum(parameters.values()),
        updates=len(updates),
        objective={
            name: {"before": asdict(first), "after": asdict(last)}
            for name in measured
            if (first := before[name]) is not None and (last := after[name]) is not None
        },
        seconds=round(time.monotonic() - started, 1),
        device=network.device.type,
    )
    shutil.rmtree(output, ignore_errors=True)
    beside.rename(output)
    for name in measured:
        if (first := before[name]) is not None and (last := after[name]) is not None:
            print(
                f"{model}/{controller}: {name} loss {first.loss:.4f} before, {last.loss:.4f} after {len(updates)} updates"
            )


def _sessions(config: Config, paths: RunPaths, model: str, path: Path) -> dict[str, list[RecordedTurn]]:
    """The sessions of a table with the texts and responses that they name."""
    responses = {
        (row["record_id"], row["sample"]): tuple(row["response_ids"])
        for row in read_table(paths.rollouts(model), ROLLOUTS, ["record_id", "sample", "response_ids"])
    }
    prompt = config.prompts[config.training_pool.prompt]
    texts = {row["record_id"]: row["problem"] for row in read_table(paths.training_pool(model), TRAINING_POOL)}
    sessions: dict[str, list[RecordedTurn]] = defaultdict(list)
    for row in read_table(path, TRAINING_SESSIONS):
        user = prompt.replace("{problem}", texts[row["record_id"]])
        sessions[row["session_id"]].append(
            RecordedTurn(user, responses[row["record_id"], row["sample"]], row["weight"])
        )
    return sessions


def _updates(config: Config, sessions: dict[str, list[RecordedTurn]], seed: str) -> list[list[list[RecordedTurn]]]:
    """The sessions of every update; the last of an epoch has what is left."""
    size, updates = config.training.sessions_per_update, []
    for epoch in range(config.training.epochs):
        order = hash_order(sessions, seed, "epoch", epoch)
        updates += [[sessions[name] for name in order[i : i + size]] for i in range(0, len(order), size)]
    return updates


def _write_curve(path: Path, curve: list[UpdateRecord]) -> None:
    with open(path, "w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, list(UpdateRecord.__dataclass_fields__), lineterminator="\n")
        writer.writeheader()
        writer.writerows(record.as_dict() for record in curve)
