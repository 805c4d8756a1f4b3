"""The training stage: a controller from a model's training sessions."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.records.files import scratch_folder, write_text
from stair.records.keys import digest_of, file_digest
from stair.records.progress import Progress
from stair.sessions.backbone import Backbone
from stair.stages.training.card import card
from stair.stages.training.checkpoint import Checkpoint, Checkpoints
from stair.stages.training.curve import COLUMNS, CURVE, change_lines, objectives, write_curve
from stair.stages.training.loop import Measurement, Session, Training, UpdateRecord, with_validation
from stair.stages.training.optimizers import Optimizers, check_warmup
from stair.stages.training.published_controller import copy_published
from stair.stages.training.recorded_sessions import in_updates, recorded_sessions
from stair.stages.training.settings import check_recurrence
from stair.stages.training.settings import training as training_settings
from stair.stages.training.student import Student
from stair.stages.training.teacher_forcing import Recompute, RecordedTurn, TeacherForcing
from stair.stages.training.workers import Workers, become_workers, local_device

Sessions = dict[str, list[RecordedTurn]]


def train(config: Config, paths: RunPaths, model: str, controller: str) -> dict[str, Any] | None:
    """Trains a controller on a model's sessions and writes its folder; resumes from the newest checkpoint.

    A controller with a `path` is copied from there instead.

    With training.workers, several processes compute their shares of an update's sessions; the first one returns the facts for
    the manifest. `end` removes the checkpoints once it is written.

    Raises:
        ValueError: a session cannot be trained on, with its row, or a layer cannot be controlled.
        ConfigError: the warm-up is as long as the training, or a hybrid lacks its GPU kernels.
    """
    if (published := paths.published(config, model, controller)) is not None:
        return copy_published(config, paths, model, controller, published)
    if config.training.workers > 1 and int(os.environ.get("WORLD_SIZE", "1")) == 1:
        become_workers(config.training.workers)
    with Workers.joined(local_device(config.transformers.device)) as workers:
        return _trained(config, paths, model, controller, workers)


def end(config: Config, paths: RunPaths, model: str, controller: str) -> None:
    """Removes the checkpoints of a finished training."""
    folder = paths.work("training", model, controller)
    for path in (*folder.glob("update-*.safetensors"), folder / CURVE):
        path.unlink(missing_ok=True)


def _trained(config: Config, paths: RunPaths, model: str, controller: str, workers: Workers) -> dict[str, Any] | None:
    """Trains in one of the workers; the first one writes the controller and returns the facts."""
    settings = config.controllers[controller]
    backbone = Backbone.open(config, paths, model)
    if settings.controls:
        backbone.architecture.check_controlled_layers(settings.controlled_layers)
    device = local_device(config.transformers.device)
    if device.startswith("cuda"):
        hybrid = len(backbone.architecture.full_attention_layers) < backbone.architecture.layers
        check_recurrence(config, model, hybrid=hybrid)
    tokens = backbone.renderer.tokens
    sessions = recorded_sessions(config, paths, model, paths.training_sessions(model), tokens)
    held_out = recorded_sessions(config, paths, model, paths.validation_sessions(model), tokens)
    if not sessions:
        raise ValueError(f"{paths.training_sessions(model)} holds no sessions")
    updates = in_updates(sessions, config.training.sessions_per_update, config.training.epochs, settings.seed)
    check_warmup(controller, settings, len(updates))
    # The same sessions before and after: the losses of different sessions differ more than by training.
    measured = {"training": _first(config, sessions), "validation": _first(config, held_out)}

    network = backbone.network(device)
    student = Student.new(network, settings, model)
    again = config.training.checkpoint_activations
    if again == "auto":  # a CPU does not say in time that its memory runs out
        again = network.device.type == "cpu"
    forcing = TeacherForcing(
        student=student,
        renderer=backbone.renderer,
        cross_entropy=config.training.cross_entropy,
        kl=config.training.kl,
        recompute=Recompute.LAYERS if again else Recompute.NOTHING,
    )
    optimizers = Optimizers(student, settings, len(updates))
    training = Training(forcing, optimizers, workers)
    training_run = _TrainingRun(config, paths, model, controller, training, measured, backbone.revision)
    training_run.run(updates)
    facts: dict[str, Any] | None = None
    if workers.first:
        facts = {"updates": len(updates), "sessions": len(sessions), "workers": workers.count, "seed": settings.seed}
        facts |= training_run.write(student, backbone, facts, network.device.type)
    workers.wait()
    return facts


class _TrainingRun:
    """A training with its curve, its checkpoints and its measurements before and after."""

    def __init__(
        self,
        config: Config,
        paths: RunPaths,
        model: str,
        controller: str,
        training: Training,
        measured_sessions: Mapping[str, Sequence[Session]],
        revision: str,
    ) -> None:
        self.config, self.paths, self.model, self.controller = config, paths, model, controller
        self.training, self.workers, self.measured_sessions = training, training.workers, measured_sessions
        self.settings = config.controllers[controller]
        inputs = (
            paths.training_pool(model),
            paths.rollouts(model),
            paths.training_sessions(model),
            paths.validation_sessions(model),
        )
        identity = digest_of(
            {
                "settings": training_settings(config, model, controller),
                "inputs": [file_digest(path) for path in inputs],
                "model": revision,
                "curve": COLUMNS,
            }
        )
        self.checkpoints = Checkpoints(paths.work("training", model, controller), identity)
        self.curve: list[UpdateRecord] = []
        self.before: dict[str, Measurement | None] = {}
        self.after: dict[str, Measurement | None] = {}

    def run(self, updates: list[list[list[RecordedTurn]]]) -> None:
        """Runs all updates after the newest checkpoint, and the measurements."""
        completed = self._resume()
        name = f"training/{self.model}/{self.controller}"
        progress = Progress(self.paths.progress, name, len(updates), "updates", completed) if self._writes else None
        every = self.config.training.validation_every

        def on_update(record: UpdateRecord) -> None:
            if every and record.update % every == 0 and record.update < len(updates):
                record = with_validation(record, self.training.measure(self.measured_sessions["validation"]))
            self.curve.append(record)
            if progress is not None:
                self._save_checkpoint(record.update)
                progress.advance(note=f"loss {record.loss:.4f}, {record.tokens_per_second:.0f} tokens/s")

        if not self.curve:
            self.before = self._measure()
            self.curve = [with_validation(UpdateRecord(0), self.before["validation"])]
            if self._writes:
                self._save_checkpoint(0)
        self.training.run(updates, on_update, first=completed)
        self.after = self._measure()
        self.curve[-1] = with_validation(self.curve[-1], self.after["validation"])

    @property
    def _writes(self) -> bool:
        return self.workers.first

    def _measure(self) -> dict[str, Measurement | None]:
        return {name: self.training.measure(some) for name, some in self.measured_sessions.items()}

    def _resume(self) -> int:
        """Restores the newest checkpoint; returns its number of updates, 0 without one."""
        checkpoint = self.checkpoints.newest()
        self.workers.wait()  # before a worker writes a newer one
        if checkpoint is None:
            return 0
        self.training.optimizers.load(checkpoint.tensors)
        self.curve = [UpdateRecord(**record) for record in checkpoint.facts["curve"]]
        self.before = {
            name: None if one is None else Measurement(**one) for name, one in checkpoint.facts["before"].items()
        }
        if self._writes:
            print(f"{self.model}/{self.controller}: resuming after update {checkpoint.update}")
        return checkpoint.update

    def _save_checkpoint(self, update: int) -> None:
        facts = {
            "curve": [record.as_dict() for record in self.curve],
            "before": {name: None if one is None else asdict(one) for name, one in self.before.items()},
        }
        self.checkpoints.save(Checkpoint(update, self.training.optimizers.state(), facts))
        write_curve(self.checkpoints.folder / CURVE, self.curve)

    def _positions(self, context: int) -> dict[str, int] | None:
        """Auxiliary positions beyond the context, in all updates; None without a bank."""
        if not self.settings.reads:
            return None
        return {"context": context, "beyond": sum(record.beyond_context or 0 for record in self.curve[1:])}

    def write(self, student: Student, backbone: Backbone, facts: dict[str, Any], device: str) -> dict[str, Any]:
        """Writes the controller's folder atomically; returns more facts for its manifest."""
        settings, output = self.settings, self.paths.controller(self.model, self.controller)
        base = backbone.settings.repository or self.model
        objective = objectives(self.before, self.after)
        parameters = {
            part: sum(parameter.numel() for parameter in named.values()) for part, named in student.parts().items()
        }
        card_facts = {**facts, **{f"{name} loss": line for name, line in change_lines(objective).items()}}
        positions = self._positions(backbone.architecture.context)
        if positions is not None:
            card_facts[f"auxiliary positions beyond the context of {positions['context']:,}"] = (
                f"{positions['beyond']:,}"
            )
        text = card(
            self.controller,
            settings,
            backbone.settings,
            revision=backbone.revision,
            parameters=parameters,
            facts=card_facts,
        )
        with scratch_folder(output) as partial:
            student.save(partial, base=base, model=self.model, controller=self.controller)
            write_curve(partial / CURVE, self.curve)
            write_text(partial / "README.md", text)
            shutil.rmtree(output, ignore_errors=True)
            partial.rename(output)
        for name, line in change_lines(objective).items():
            print(f"{self.model}/{self.controller}: {name} loss {line}, {facts['updates']} updates")
        return {
            "model_revision": backbone.revision,
            "parameters": sum(parameters.values()),
            "objective": objective,
            "auxiliary_positions": positions,
            "tokens_per_second": self._speed(),
            "device": device,
        }

    def _speed(self) -> float | None:
        """Supervised tokens a second of all updates."""
        timed = [
            (each.tokens, each.tokens / each.tokens_per_second)
            for each in self.curve
            if each.tokens and each.tokens_per_second
        ]
        seconds = sum(taken for _, taken in timed)
        return round(sum(tokens for tokens, _ in timed) / seconds, 1) if seconds else None


def _first(config: Config, sessions: Sessions) -> Sequence[Session]:
    return [*sessions.values()][: config.training.validation_sessions]
