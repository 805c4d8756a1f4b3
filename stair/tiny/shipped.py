"""The small backbones that the project ships (`backbones/`), and their comparison with newly trained ones.

The project ships their weights, because a training on another processor gives other weights: it rounds sums differently.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stair.config.model import Config
from stair.config.paths import BACKBONE_FILES, RunPaths, require_folder
from stair.models.model_folder import model_revision
from stair.records.files import read_mapping, write_json, write_text_if_changed
from stair.records.manifest import manifest_path
from stair.records.text_tables import markdown_table
from stair.tiny.settings import EMBEDDED_VERSION

FOLDER = Path(__file__).parents[2] / "backbones"
"""One folder for each model, `DIGESTS` and the model card."""
DIGESTS = "digests.json"


@dataclass(frozen=True)
class Trained:
    """A backbone that a run has trained."""

    name: str
    """Its folder in `backbones/`."""
    folder: Path
    digest: str
    """The `model_revision` of its folder."""
    manifest: Mapping[str, Any]

    @property
    def last(self) -> dict[str, Any]:
        """The measurements of the kept seed."""
        last: dict[str, Any] = self.manifest["tried"][-1]
        return last

    @property
    def accuracies(self) -> dict[str, dict[str, float]]:
        """Fractions by benchmark and turn (`T1`) for the kept seed."""
        shares: dict[str, dict[str, float]] = {}
        for name, share in self.last["accuracy"].items():
            benchmark, turn = name.split()
            shares.setdefault(benchmark, {})[turn] = share
        return shares


def trained(config: Config, paths: RunPaths) -> list[Trained]:
    """The backbones that a run has trained.

    Raises:
        ConfigError: one of them has not been trained yet.
        ValueError: the run trains none.
    """
    backbones = []
    for key, settings in config.models.items():
        if settings.tiny is None:
            continue
        folder = require_folder(paths.backbone(key), f"models.{key}")
        backbones.append(
            Trained(
                name=settings.label.lower().replace(" ", "-"),
                folder=folder,
                digest=model_revision(folder, None),
                manifest=read_mapping(manifest_path(folder)),
            )
        )
    if not backbones:
        raise ValueError(
            f"run '{config.run}' trains no small backbone; results/tiny-backbones does (make tiny-backbones)"
        )
    return backbones


def shipped_digests() -> dict[str, str]:
    """The digest of each shipped backbone, computed from its files."""
    folders = sorted(path.parent for path in FOLDER.glob("*/config.json"))
    return {folder.name: model_revision(folder, None) for folder in folders}


def ship(backbones: list[Trained]) -> None:
    """Replaces the shipped backbones, their digests and the model card.

    Raises:
        ValueError: the run trains other backbones than the shipped ones, or the weights of a used version would change.
    """
    recorded = read_mapping(FOLDER / DIGESTS) if (FOLDER / DIGESTS).is_file() else {}
    shipped: dict[str, str] = recorded.get("digests", {})
    digests = {each.name: each.digest for each in backbones}
    if shipped and shipped.keys() != digests.keys():
        raise ValueError(
            f"this run trains {', '.join(digests)}, and the project comes with {', '.join(shipped)}; "
            "`make tiny-backbones` trains those"
        )
    if recorded.get("embedded_version") == EMBEDDED_VERSION and shipped != digests:
        raise ValueError(
            f"the weights differ from those of version {EMBEDDED_VERSION}: raise EMBEDDED_VERSION in stair/tiny/settings.py "
            "first, so that finished runs see that their small backbones have changed"
        )
    for each in backbones:
        folder = FOLDER / each.name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name in BACKBONE_FILES:
            shutil.copyfile(each.folder / name, folder / name)
    FOLDER.mkdir(parents=True, exist_ok=True)
    write_json(FOLDER / DIGESTS, {"embedded_version": EMBEDDED_VERSION, "digests": digests})
    write_text_if_changed(FOLDER / "README.md", _card(backbones))


def _card(backbones: list[Trained]) -> str:
    """The model card of the shipped weights."""
    lines = [
        "# Small backbones of the tiny run",
        "",
        "Language models of about a million parameters: Transformers' own Qwen3 and Qwen3.5 classes,",
        "trained on generated arithmetic and multiple-choice problems. The tiny run loads them like any",
        "other model folder. They replace the models of the paper whose names they have, and show",
        "that every stage runs; their numbers say nothing about the paper. They are of no other use.",
        "",
        "Weights are BF16, rounded at the end of a training in FP32. The data are generated by",
        "`stair/tiny`, the settings are in `workflow/runs/tiny-backbones.yaml`, the license is Apache-2.0.",
        "`make tiny-backbones` trains them again, in some minutes, and compares. Another processor rounds",
        "sums in another way and trains others. `make tiny-backbones WRITE=1` puts the new ones here, after",
        "`EMBEDDED_VERSION` in `stair/tiny/settings.py` has been raised; finished tiny runs are then stale.",
        "",
        f"Version {EMBEDDED_VERSION}.",
        "",
    ]
    head = ("folder", "parameters", "seed", "tokens seen", "loss at the end (nats)", "SHA-256 of the folder")
    rows = [
        (
            each.name,
            f"{each.last['parameters']:,}",
            str(each.last["seed"]),
            f"{each.last['tokens']:,}",
            f"{each.last['final_loss']:.4f}",
            f"`{each.digest}`",
        )
        for each in backbones
    ]
    lines += markdown_table(head, rows, right=(1, 3, 4))
    lines += [
        "",
        "Share of right answers of the unmodified model (Native) on 48 sessions of a benchmark, in percent.",
        "With history a share of the problems is left unanswered, because the models were trained to.",
        "",
    ]
    rows_of_turns = [
        (each.name, benchmark, *(f"{share:.0%}"[:-1] for share in turns.values()))
        for each in backbones
        for benchmark, turns in each.accuracies.items()
    ]
    lines += markdown_table(("folder", "benchmark", "T1", "T2", "T3", "T4"), rows_of_turns, right=range(2, 6))
    manifest = backbones[0].manifest
    versions = ", ".join(f"{name} {manifest['versions'][name]}" for name in ("python", "torch", "transformers"))
    lines += ["", f"Made on {manifest['machine']['processor']} with {versions}, one thread a model."]
    return "\n".join(lines) + "\n"
