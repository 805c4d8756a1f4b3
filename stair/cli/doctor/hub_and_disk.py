"""Downloads that a run still needs, access to them, and free disk."""

from __future__ import annotations

import os
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from stair.cli.doctor.finding import Finding
from stair.config.model import Config
from stair.config.paths import RunPaths, anchored
from stair.models.hub.fetch import Download, online, plan_downloads
from stair.models.hub.sources import Source, hub_sources, read_lock, read_mark
from stair.pipeline.model_shape import shape_of
from stair.pipeline.plan import Planner
from stair.records.files import bytes_text, existing_folder

_HUB_SECONDS = 2.0
_BYTES_IN_FILES = 2
"""Bytes of a weight on the hub, where models are in bfloat16."""
_SPARE = 5_000_000_000
"""Bytes for work logs, captured states, tables and figures, and for the system."""
_SHOWN = 10_000_000
"""Fewer bytes of responses are not listed."""


def storage_findings(config: Config, paths: RunPaths, run: str) -> Iterator[Finding]:
    """Findings on the hub and the disks. Makes no request if nothing is missing.

    Args:
        run: the argument of `stair reproduce --run`.
    """
    # A run that only measures random weights needs no source. Two entries can name the same files.
    needed = [] if config.only_measures else list(hub_sources(config, paths))
    by_mark: dict[Path, Source] = {}
    for source in needed:
        if read_mark(source) is None:
            by_mark.setdefault(source.mark, source)
    missing, downloads = list(by_mark.values()), list[Download]()
    if missing:
        findings, downloads = _hub(config, missing, run)
        yield from findings
    else:
        text = f"all {len(needed)} models and data sets are in {config.hub.cache}"
        yield Finding("hub", "ok", text if needed else "this run needs no download")
    yield from _disks(config, paths, _download_bytes(config, paths, missing, downloads))


def _hub(config: Config, missing: list[Source], run: str) -> tuple[list[Finding], list[Download]]:
    names = ", ".join(source.name for source in missing)
    fetch = f"stair reproduce --run {run}{' --go' if config.expensive else ''} --target fetch"
    if not online():
        text = f"hub access is off in this shell (TRANSFORMERS_OFFLINE), and {names} must be fetched"
        return [Finding("hub", "error", text, "unset TRANSFORMERS_OFFLINE HF_HUB_OFFLINE")], []
    from huggingface_hub import constants, get_token

    if fault := _unreachable(constants.ENDPOINT):
        text = f"{constants.ENDPOINT} does not answer ({fault}), and {names} must be fetched"
        return [Finding("hub", "error", text, f"{fetch}, on a machine with access to the hub")], []
    lock_path = anchored(config.hub.lock)
    downloads, refusals = plan_downloads(missing, read_lock(lock_path), lock_path)
    findings = []
    if downloads:
        size = bytes_text(sum(each.missing_bytes for each in downloads))
        token = "with" if get_token() else "without"
        text = (
            f"{constants.ENDPOINT} answers, {token} a token; {size} of {len(downloads)} models and data sets to fetch"
        )
        findings.append(Finding("hub", "ok", text))
    for line in refusals:
        remedy = "hf auth login, or: export HF_TOKEN=<token>" if "gated" in line else fetch
        findings.append(Finding("hub", "error", line, remedy))
    return findings, downloads


def _unreachable(endpoint: str) -> str | None:
    """The fault of a request to the hub's address; None if it answers, whatever it answers."""
    try:
        urllib.request.urlopen(urllib.request.Request(endpoint, method="HEAD"), timeout=_HUB_SECONDS).close()
    except urllib.error.HTTPError:
        return None
    except OSError as error:
        return str(getattr(error, "reason", error))
    return None


def _download_bytes(config: Config, paths: RunPaths, missing: list[Source], downloads: list[Download]) -> int:
    """Bytes to download: as the hub reports them, else by the models' shapes."""
    reported = {each.source.name: each.missing_bytes for each in downloads}
    total = sum(reported.values())
    for source in missing:
        if source.name not in reported and source.kind == "model":
            shape = shape_of(config, paths, source.name.removeprefix("models."))
            total += _BYTES_IN_FILES * shape.parameters if shape.known else 0
    return total


def _disks(config: Config, paths: RunPaths, downloads: int) -> Iterator[Finding]:
    """Whether the folders can be written, and whether each disk has room for what the run still adds to it."""
    folders = {"results": paths.folder, "hub.cache": anchored(config.hub.cache)}
    needs = {"results": _outputs(config, paths)}
    if downloads:
        needs["hub.cache"] = {"downloads": downloads}
    disks: dict[int, list[str]] = {}
    for key in needs:
        existing = existing_folder(folders[key].absolute())
        if not os.access(existing, os.W_OK):
            remedy = f"chmod u+w {existing}, or set {key} in the overlay to a folder of yours"
            yield Finding("disk", "error", f"{existing} cannot be written", remedy)
        disks.setdefault(existing.stat().st_dev, []).append(key)
    for keys in disks.values():
        folder, parts = folders[keys[0]], {name: size for key in keys for name, size in needs[key].items()}
        free, needed = shutil.disk_usage(existing_folder(folder.absolute())).free, sum(parts.values()) + _SPARE
        listed = [
            f"{bytes_text(size)} of {name}" for name, size in parts.items() if size > _SHOWN or name == "downloads"
        ]
        listed.append(f"{bytes_text(_SPARE)} for logs and tables")
        text = f"{folder}: {bytes_text(free)} free, {bytes_text(needed)} needed ({', '.join(listed)})"
        if needed <= free:
            yield Finding("disk", "ok", text)
            continue
        short = needed - _SPARE > free
        remedy = f"make room, or set {keys[-1 if short else 0]} in the overlay to a folder on a larger disk"
        yield Finding("disk", "error" if short else "warning", text, remedy)


def _outputs(config: Config, paths: RunPaths) -> dict[str, int]:
    """The planned bytes of replayed states and of responses that the run's folder does not hold yet."""
    logs = [log for stage in ("rollouts", "evaluation", "controls") for log in paths.work(stage).glob("**/log")]
    present = {
        "replayed states": sum(_bytes_in(paths.replay_states(model)) for model in config.models),
        "responses": sum(map(_bytes_in, [paths.folder / "rollouts", paths.folder / "responses", *logs])),
    }
    return {name: max(0, planned - present[name]) for name, planned in Planner(config, paths).disk_bytes().items()}


def _bytes_in(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
