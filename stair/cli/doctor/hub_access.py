"""The hub: whether it answers and gives access to what still must be fetched."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from stair.cli.doctor.finding import Finding
from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.models.hub.download_plan import DownloadPlan, bytes_text, download_plans
from stair.models.hub.revisions import Source, hub_sources, read_lock, read_mark

_SECONDS = 2.0


def missing_sources(config: Config, paths: RunPaths) -> list[Source]:
    """The models and data sets of the hub that the run's jobs read and the cache does not hold, each repository file once."""
    sources: dict[Path, Source] = {}
    for source in _needed(config, paths):
        if read_mark(source) is None:
            sources.setdefault(source.mark, source)
    return list(sources.values())


def _needed(config: Config, paths: RunPaths) -> list[Source]:
    """The sources that the run's jobs read: a run that only measures random weights needs none."""
    return [] if config.only_measures else list(hub_sources(config, paths))


def hub_findings(
    config: Config, paths: RunPaths, missing: list[Source], run: str
) -> tuple[list[Finding], list[DownloadPlan]]:
    """Findings on the hub, and the downloads that are to come as far as the hub reports them.

    Sends no request if nothing is missing. `run` is what `stair reproduce --run` takes: an overlay of one's own by its path.
    """
    if not missing:
        every = len(_needed(config, paths))
        text = f"all {every} models and data sets are in {config.hub.cache}" if every else "this run needs no download"
        return [Finding("hub", "ok", text)], []
    names = ", ".join(source.name for source in missing)
    fetch = f"stair reproduce --run {run}{' --go' if config.expensive else ''} --target fetch"
    # The library reads these at its import.
    os.environ["HF_HUB_OFFLINE"] = "0"
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    from huggingface_hub import constants, get_token

    if constants.HF_HUB_OFFLINE:
        text = f"hub access is off in this shell (TRANSFORMERS_OFFLINE), and {names} must be fetched"
        return [Finding("hub", "error", text, "unset TRANSFORMERS_OFFLINE HF_HUB_OFFLINE")], []
    if fault := _unreachable(constants.ENDPOINT):
        text = f"{constants.ENDPOINT} does not answer ({fault}), and {names} must be fetched"
        return [Finding("hub", "error", text, f"{fetch}, on a machine with access to the hub")], []
    plans, faults = download_plans(missing, read_lock(Path(config.hub.lock)), Path(config.hub.lock))
    findings = list(_plan_findings(plans, constants.ENDPOINT, bool(get_token())))
    for line in faults:
        gated = "gated" in line
        findings.append(Finding("hub", "error", line, "hf auth login, or: export HF_TOKEN=<token>" if gated else fetch))
    return findings, plans


def _plan_findings(plans: list[DownloadPlan], endpoint: str, token: bool) -> Iterator[Finding]:
    if plans:
        size = bytes_text(sum(plan.missing_bytes for plan in plans))
        text = f"{endpoint} answers, {'with' if token else 'without'} a token"
        yield Finding("hub", "ok", f"{text}; {size} of {len(plans)} models and data sets to fetch")


def _unreachable(endpoint: str) -> str | None:
    """The fault of a request to the hub's address; None if it answers, whatever it answers."""
    try:
        urllib.request.urlopen(urllib.request.Request(endpoint, method="HEAD"), timeout=_SECONDS).close()
    except urllib.error.HTTPError:
        return None
    except OSError as error:
        return str(getattr(error, "reason", error))
    return None
