"""`provenance.json` of a run: versions, hardware, models, data sets, costs, and every output with its checksum."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stair.config.backbones import Model
from stair.config.datasets import Dataset
from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.pipeline.jobs import STAGES
from stair.pipeline.verify import Receipts
from stair.records.files import write_json_if_changed
from stair.records.keys import PROTOCOL_VERSION, digest_of, file_digest
from stair.records.manifest import COPIED_FROM, GENERATED_ON, Manifest, commit
from stair.records.progress import duration

_OWN = {"provenance.json", "report.html"}
"""Outputs that are left out: the file cannot contain its own checksum, and the report shows it."""

_SEALS = (*STAGES["rollouts"], *STAGES["evaluation"])
"""The rules that write tables of generated responses."""


def write_provenance(config: Config, paths: RunPaths) -> None:
    """Summarises a run in provenance.json: versions, hardware, seeds, revisions, costs, every output with its checksum."""
    content = provenance(config, paths)
    write_json_if_changed(paths.provenance, content)
    generated = content["costs"]["generated"]["all"]
    seconds = sum(rule["seconds"] for rule in content["costs"]["rules"].values())
    print(
        f"{paths.provenance}: {sum(output is not None for output in content['outputs'].values())} outputs, "
        f"{generated['responses']} responses of {generated['response_tokens']} tokens, {duration(seconds)} of jobs"
    )


def provenance(config: Config, paths: RunPaths) -> dict[str, Any]:
    """The content of `provenance.json`, from the outputs' manifests. An output with a damaged one is null. Times are UTC."""
    receipts = Receipts(paths.folder)
    outputs: dict[str, Manifest | None] = {fault.remove: None for fault in receipts.unreadable}
    outputs |= {receipts.name(each): each for each in receipts.manifests}
    outputs = {name: outputs[name] for name in sorted(outputs.keys() - _OWN)}
    manifests = [manifest for manifest in outputs.values() if manifest is not None]
    times = [manifest.content["sealed"] for manifest in manifests]
    generated, devices = _generated(config, paths, list(filter(_has_responses, manifests)))
    return {
        "run": config.run,
        "protocol_version": PROTOCOL_VERSION,
        "configuration": digest_of(config.model_dump(mode="json")),
        "sealed": {"first": min(times, default=None), "last": max(times, default=None)},
        "commit": commit(),
        "code": _counted([code for each in manifests for code in each.codes], "source"),
        "versions": _counted([each.content.get("versions") for each in manifests], "versions"),
        "hardware": _counted([machine for each in manifests for machine in each.machines], "machine"),
        "devices": devices,
        "seeds": dict(_seeds(config.model_dump(mode="json"))),
        "models": {
            key: _model(manifests, paths.model_mark(config, key), key, model) for key, model in config.models.items()
        },
        "data_sets": {
            name: _data_set(paths.dataset_file(config, name), paths.fetched_mark(config, name), dataset)
            for name, dataset in (("training_pool", config.training_pool), *config.benchmarks.items())
        },
        "costs": {"rules": _rules(manifests), "generated": generated},
        "outputs": {name: None if manifest is None else _output(manifest) for name, manifest in outputs.items()},
    }


def _output(manifest: Manifest) -> dict[str, Any]:
    content = manifest.content
    return {
        "made_by": manifest.title,
        "sealed": content["sealed"],
        "files": manifest.files,
        "settings": digest_of(manifest.settings),
        "inputs": sorted(manifest.inputs),
        "code": manifest.codes,
        **{key: content[key] for key in (COPIED_FROM,) if key in content},
    }


def _counted(values: Sequence[Any], name: str) -> list[dict[str, Any]]:
    """The distinct values of a manifest key, each with its number of outputs."""
    by_digest = {digest_of(value): value for value in values}
    counts = Counter(map(digest_of, values))
    return [{"outputs": count, name: by_digest[digest]} for digest, count in counts.most_common()]


def _has_responses(manifest: Manifest) -> bool:
    return GENERATED_ON in manifest.content and manifest.rule in _SEALS


def _seeds(values: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(values, Mapping):
        for key, value in values.items():
            inner = f"{place}.{key}" if place else str(key)
            if key in ("seed", "seeds"):
                yield inner, value
            else:
                yield from _seeds(value, inner)


def _model(manifests: Sequence[Manifest], mark: Path, key: str, settings: Model) -> dict[str, Any]:
    """A model: its source, the fetched commit, and the revisions that outputs were made with."""
    revisions = Counter(
        manifest.content["model_revision"]
        for manifest in manifests
        if manifest.wildcards.get("model") == key and "model_revision" in manifest.content
    )
    return {
        "repository": settings.repository,
        "path": settings.path,
        "revision": settings.revision,
        "fetched": _fetched(mark),
        "contents": dict(revisions.most_common()),
        "dtype": settings.dtype,
    }


def _data_set(file: Path, mark: Path, settings: Dataset) -> dict[str, Any]:
    return {
        "repository": settings.repository,
        "path": settings.path,
        "generated": settings.tiny is not None,
        "revision": settings.revision,
        "fetched": _fetched(mark),
        "sha256": file_digest(file) if file.is_file() else None,
    }


def _fetched(mark: Path) -> Any:
    """The content of the mark of a download; None for what was not downloaded."""
    try:
        return json.loads(mark.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _rules(manifests: Sequence[Manifest]) -> dict[str, Any]:
    """The outputs and seconds of each rule, the costliest first. A seal's seconds include those of its shards."""
    counts = Counter(manifest.rule for manifest in manifests)
    seconds = defaultdict[str, float](float)
    for manifest in manifests:
        seconds[manifest.rule] += manifest.seconds
    rules = sorted(seconds, key=lambda rule: -seconds[rule])
    return {rule: {"outputs": counts[rule], "seconds": round(seconds[rule], 1)} for rule in rules}


def _generated(
    config: Config, paths: RunPaths, manifests: Sequence[Manifest]
) -> tuple[dict[str, dict[str, int]], dict[str, list[str]]]:
    """Responses and tokens by table of generated rows, with their sum, and the tables by device.

    First turns that are another condition's count there.
    """
    tokens = ("prompt_tokens", "response_tokens")
    counts: dict[str, dict[str, int]] = {}
    devices: dict[str, list[str]] = defaultdict(list)
    for manifest in manifests:
        file = next(iter(manifest.files))
        condition = manifest.wildcards.get("condition")
        shares_first = condition in config.every_condition and config.first_turn(condition) is not None
        try:
            table = pq.read_table(paths.folder / file, columns=[*tokens, "device", *(["turn"] if shares_first else [])])
        except (OSError, pa.ArrowInvalid):
            continue
        name = file.removesuffix(".parquet")
        for device in pc.unique(table["device"]).to_pylist():
            devices[device].append(name)
        own = table.filter(pc.greater(table["turn"], 1)) if shares_first else table
        counts[name] = {"responses": len(own), **{column: pc.sum(own[column]).as_py() or 0 for column in tokens}}
    total = {key: sum(count[key] for count in counts.values()) for key in ("responses", *tokens)}
    return {"all": total, **counts}, {device: sorted(names) for device, names in sorted(devices.items())}
