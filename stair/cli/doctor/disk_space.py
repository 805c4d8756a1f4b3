"""Free disk against the downloads, the responses and the replay of a run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stair.cli.doctor.attention_paths import architecture_of
from stair.cli.doctor.finding import Finding
from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.models.hub.download_plan import DownloadPlan
from stair.models.hub.model_shape import shape_of
from stair.models.hub.revisions import Source, read_lock
from stair.records.tensor_files import gigabytes
from stair.stages.replay.batch_files import Shapes, replay_bytes

_BYTES_IN_FILES = 2
"""Bytes of a weight on the hub, where models are in bfloat16."""
_SPARE = 5_000_000_000
"""Bytes for work logs, captured states, tables and figures, and for the system."""


@dataclass(frozen=True)
class _Place:
    """A folder that the run writes to."""

    key: str
    """Its key in the configuration."""
    folder: Path
    needed: int
    """The bytes that the run still adds to it."""
    contents: str
    """What they are, in words; empty for too little to show."""


def free_bytes(folder: Path) -> tuple[int, int]:
    """The free bytes of the file system that a folder is or will be on, and the device's number."""
    existing = _existing(folder)
    return shutil.disk_usage(existing).free, existing.stat().st_dev


def _existing(folder: Path) -> Path:
    """A folder, or the first of its parents that exists."""
    return next(place for place in (folder.absolute(), *folder.absolute().parents) if place.is_dir())


def _bytes_in(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def disk_findings(
    config: Config, paths: RunPaths, missing: list[Source], plans: list[DownloadPlan], responses: int
) -> Iterator[Finding]:
    """Findings on folders that cannot be written, and on the needed and free space of results and cache, maybe on one disk.

    Args:
        responses: planned bytes of the run's responses and their work logs.
    """
    places = [_results(config, paths, responses)]
    if downloads := _download_bytes(config, paths, missing, plans):
        places.append(_Place("hub.cache", Path(config.hub.cache), downloads, f"{gigabytes(downloads)} of downloads"))
    for place in places:
        if not os.access(existing := _existing(place.folder), os.W_OK):
            remedy = f"chmod u+w {existing}, or set {place.key} in the overlay to a folder of yours"
            yield Finding("disk", "error", f"{existing} cannot be written", remedy)
    disks: dict[int, list[_Place]] = {}
    for place in places:
        disks.setdefault(free_bytes(place.folder)[1], []).append(place)
    for together in disks.values():
        yield _room(together)


def _results(config: Config, paths: RunPaths, responses: int) -> _Place:
    """The run's folder, and what of the planned replayed states and responses is not in it yet."""
    planned = _planned_states(config, paths)
    present = {model: _bytes_in(paths.replay_states(model)) for model in planned}
    states_to_come = sum(max(0, size - present[model]) for model, size in planned.items())
    responses_to_come = max(0, responses - (_bytes_in(paths.folder) - sum(present.values())))
    # Less than a hundredth of a gigabyte is not shown.
    shown = {"replayed states": states_to_come, "responses": responses_to_come if responses_to_come > 10_000_000 else 0}
    contents = ", ".join(f"{gigabytes(size)} of {name}" for name, size in shown.items() if size)
    return _Place("results", paths.folder, states_to_come + responses_to_come, contents)


def _planned_states(config: Config, paths: RunPaths) -> dict[str, int]:
    """The bytes of every model's replayed states, where its architecture is known."""
    planned: dict[str, int] = {}
    for model in config.replay.models if config.replay else ():
        architecture = architecture_of(config, paths, model)
        if config.replay is not None and architecture is not None:
            shapes = Shapes.of_model(architecture, config.replay.layers, config.replay.depth)
            planned[model] = replay_bytes(config.replay, shapes)
    return planned


def _room(places: list[_Place]) -> Finding:
    """Whether what the places of one disk need fits on it."""
    folder = places[0].folder
    free, needed = free_bytes(folder)[0], sum(place.needed for place in places) + _SPARE
    parts = [place.contents for place in places if place.contents] + [f"{gigabytes(_SPARE)} for logs and tables"]
    text = f"{folder}: {gigabytes(free)} free, {gigabytes(needed)} needed ({', '.join(parts)})"
    if needed <= free:
        return Finding("disk", "ok", text)
    short = needed - _SPARE > free
    key = places[-1 if short else 0].key
    remedy = f"make room, or set {key} in the overlay to a folder on a larger disk"
    return Finding("disk", "error" if short else "warning", text, remedy)


def _download_bytes(config: Config, paths: RunPaths, missing: list[Source], plans: list[DownloadPlan]) -> int:
    """Bytes to download: as the hub reports them, else as the lock file records them, else by the published shapes."""
    known = {plan.source.name: plan.missing_bytes for plan in plans}
    lock = read_lock(Path(config.hub.lock))
    total = 0
    for source in missing:
        if source.name in known:
            total += known[source.name]
        elif source.locked_as in lock:
            total += sum(file["bytes"] for file in lock[source.locked_as]["files"].values())
        elif not source.dataset:
            shape = shape_of(config, paths, source.name.removeprefix("models."))
            total += _BYTES_IN_FILES * shape.parameters if shape.known else 0
    return total
