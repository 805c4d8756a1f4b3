"""The command that starts a run as its user started it: with an overlay's path and the settings of the command line."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from stair.config.model import Config
from stair.config.paths import RunPaths, anchored
from stair.config.resolve import typed
from stair.records.files import read_mapping, write_json_if_changed


def record_start(root: Path, config: Config, paths: RunPaths, overrides: Mapping[str, Any]) -> None:
    """Keeps the settings of the command line for `start_command`. The resolved configuration has the run's name alone."""
    settings = {key: typed(value) for key, value in overrides.items()}
    run = str(settings.pop("run", config.run))
    overlay = anchored(run).resolve()
    if overlay == (root / "workflow" / "runs" / f"{config.run}.yaml").resolve():
        run = config.run
    elif overlay.is_file():
        run = str(overlay.relative_to(root) if overlay.is_relative_to(root) else overlay)
    write_json_if_changed(paths.work("start.json"), {"run": run, "set": settings})


def started_with(config: Config, paths: RunPaths) -> dict[str, Any]:
    """The overrides of the last start, as of `resolve`: `run` and the settings; for a copied run also its present folder.

    Without a readable record, `run` alone: a remedy is no reason to stop.
    """
    overrides: dict[str, Any] = {"run": config.run}
    with suppress(OSError, ValueError, KeyError, TypeError):
        started = read_mapping(paths.work("start.json"))
        overrides = {"run": str(started["run"]), **dict(started["set"])}
    if paths.folder.resolve() != RunPaths.of(config).folder.resolve():
        overrides["results"] = str(paths.folder.resolve().parent)
    return overrides


def start_command(config: Config, paths: RunPaths, *options: str) -> str:
    """`stair reproduce` with the run and the settings with which it was started last, and further options."""
    settings = started_with(config, paths)
    run = settings.pop("run")
    return " ".join(("stair reproduce --run", shlex.quote(run), *options, *setting_options(settings)))


def config_words(overrides: Mapping[str, Any]) -> list[str]:
    """Overrides as words for `snakemake --config`. Spaces keep quotes at the ends, which Snakemake strips."""
    return [f"{key}={value}" if key == "run" else f"{key}= {_flow(value)} " for key, value in overrides.items()]


def setting_options(settings: Mapping[str, Any]) -> list[str]:
    """The settings as options of a shell's command."""
    return [word for key, value in settings.items() for word in ("--set", shlex.quote(f"{key}={_flow(value)}"))]


def _flow(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10**6)
    return text.removesuffix("\n").removesuffix("\n...")
