"""What a run holds of a published archive, in place of computing it: the graph asks, and leaves out what need not be made.

`stair restore` puts whole outputs, with their manifests, below `restored/` of the run's folder, laid out as a run. An output
counts as restored while its rule's settings are those under which it was made; when they change, the graph is as without it.
Imports no torch.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

from stair.config import params
from stair.config.model import Config
from stair.config.params import Settings
from stair.config.paths import RunPaths

ORIGIN = "origin"
"""The manifest's key for what an output was made from."""


def made_under(manifest: Path, settings: Callable[[], Settings]) -> bool:
    """Whether a manifest is there and tells of these settings."""
    try:
        made = json.loads(manifest.read_text(encoding="utf-8"))[ORIGIN]["settings"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return bool(made == json.loads(json.dumps(settings())))


class Restored:
    """The outputs that a run holds of an archive."""

    def __init__(self, config: Config, paths: RunPaths) -> None:
        self._config, self._paths = config, paths
        self.store = RunPaths(paths.restored)
        self._known: dict[tuple[str, ...], bool] = {}

    @cached_property
    def any(self) -> bool:
        """Whether the run holds anything of an archive."""
        return self.store.folder.is_dir()

    def has(self, rule: str, *name: str) -> bool:
        """Whether a job's outputs are held, made under the settings that stand now."""
        if not self.any:
            return False
        if (rule, *name) not in self._known:
            self._known[rule, *name] = self._look(rule, *name)
        return self._known[rule, *name]

    def training_data_wanted(self, model: str) -> bool:
        """Whether a model's rollouts and sessions are to be made.

        Not where all its trained controllers are restored and their training data is neither in the archive nor here.
        """
        config = self._config
        controllers = [controller for controller in config.controllers if model in config.trained(controller)]
        if not controllers or not all(self.has("controller", model, controller) for controller in controllers):
            return True
        return self.has("rollouts", model) or self._paths.rollouts(model).is_file()

    def model_wanted(self, model: str) -> bool:
        """Whether anything is to be made with a model: not where all that it would make is restored."""
        config = self._config
        made: list[tuple[str, ...]] = [("rollouts", model)] if self.training_data_wanted(model) else []
        made += [("controller", model, name) for name in config.controllers if model in config.trained(name)]
        made += [
            ("responses", model, benchmark, condition)
            for condition in config.conditions
            for of, benchmark in config.evaluated(condition)
            if of == model
        ]
        return any(not self.has(*job) for job in made)

    def _look(self, rule: str, *name: str) -> bool:
        manifest, settings = self._place(rule, *name)
        return made_under(manifest, settings)

    def _place(self, rule: str, *name: str) -> tuple[Path, Callable[[], Settings]]:
        """Where a job's manifest lies in the store, and its settings now."""
        config, store = self._config, self.store

        def beside(file: Path) -> Path:
            return file.with_name(f"{file.name}.manifest.json")

        if rule == "backbone":
            return store.backbone(*name) / "manifest.json", lambda: params.backbone(config, *name)
        if rule == "benchmark":
            return beside(store.benchmark(*name)), lambda: params.benchmark(config, *name)
        if rule == "training_pool":
            return beside(store.training_pool(*name)), lambda: params.training_pool(config, *name)
        if rule == "rollouts":
            return beside(store.rollouts(*name)), lambda: params.rollouts(config, *name)
        if rule == "controller":
            return store.controller(*name) / "manifest.json", lambda: params.training(config, *name)
        assert rule == "responses", f"outputs of {rule} are not restored"
        return beside(store.responses(*name)), lambda: params.evaluation(config, *name)


RULES = ("backbone", "benchmark", "training_pool", "rollouts", "controller", "responses")
"""The rules whose outputs can be restored; all others are computed in moments from these."""
