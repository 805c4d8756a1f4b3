"""`provenance.json` of a run: versions, hardware, models, data sets, costs, and every output with its checksum."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stair.config.backbones import Model
from stair.config.datasets import Dataset
from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.core import SHARED_T1_STUDY
from stair.graph import budget
from stair.graph.artifacts import Artifact, Artifacts
from stair.graph.origin import ORIGIN
from stair.graph.recorded_origin import COPIED_FROM, name_in_run, read_manifest
from stair.records.keys import PROTOCOL_VERSION, digest_of, file_digest


def provenance(config: Config, paths: RunPaths) -> dict[str, Any]:
    """The content of `provenance.json`.

    Outputs are described by their manifests; an output without one is null. Times are UTC.
    """
    outputs = [(artifact, _manifest(artifact)) for artifact in Artifacts(config, paths).all]
    # provenance.json cannot contain its own checksum, and the report shows it.
    own = ("provenance", "report")
    outputs = [(artifact, manifest) for artifact, manifest in outputs if artifact.output.name not in own]
    manifests = [manifest for _, manifest in outputs if manifest is not None]
    return {
        "run": config.run,
        "protocol_version": PROTOCOL_VERSION,
        "configuration": digest_of(config.model_dump(mode="json")),
        "sealed": {"first": _ends(manifests, min), "last": _ends(manifests, max)},
        "code": _counted(manifests, "source"),
        "versions": _counted(manifests, "versions"),
        "hardware": _counted(manifests, "machine"),
        "devices": _devices(config, paths),
        "seeds": dict(_seeds(config.model_dump(mode="json"))),
        "models": {
            key: _model(outputs, paths.model_folder(config, key), key, model) for key, model in config.models.items()
        },
        "data_sets": {
            name: _data_set(paths.dataset_file(config, name), dataset)
            for name, dataset in (("training_pool", config.training_pool), *config.benchmarks.items())
        },
        "costs": {"rules": _rules(paths), "generated": _generated(config, paths)},
        "outputs": {
            name_in_run(artifact.files[0], paths): _output(artifact, manifest) for artifact, manifest in outputs
        },
    }


def _manifest(artifact: Artifact) -> dict[str, Any] | None:
    try:
        return read_manifest(artifact.manifest)
    except (OSError, ValueError):
        return None


def _output(artifact: Artifact, manifest: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if manifest is None:
        return None
    origin = manifest[ORIGIN]
    entry = {
        "made_by": artifact.title,
        "sealed": manifest.get("sealed"),
        "files": origin.get("files"),
        "settings": digest_of(origin.get("settings")),
        "inputs": sorted(origin.get("inputs", ())),
        "code": manifest.get("source"),
    }
    return entry | {name: manifest[name] for name in COPIED_FROM if name in manifest}


def _ends(manifests: list[dict[str, Any]], end: Any) -> str | None:
    times = [manifest["sealed"] for manifest in manifests if "sealed" in manifest]
    return end(times) if times else None


def _counted(manifests: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """The distinct values of a manifest key, each with its number of outputs."""
    values = {digest_of(manifest.get(name)): manifest.get(name) for manifest in manifests}
    counts = Counter(digest_of(manifest.get(name)) for manifest in manifests)
    return [{"outputs": count, name: values[digest]} for digest, count in counts.most_common()]


def _seeds(values: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Every seed of the configuration by its place."""
    if isinstance(values, Mapping):
        for key, value in values.items():
            inner = f"{place}.{key}" if place else str(key)
            if key in ("seed", "seeds"):
                yield inner, value
            else:
                yield from _seeds(value, inner)


def _model(
    outputs: list[tuple[Artifact, dict[str, Any] | None]], folder: Path, key: str, settings: Model
) -> dict[str, Any]:
    """A model: its source, the fetched commit, and the contents that outputs were made with."""
    contents = Counter(
        manifest[ORIGIN]["models"][key]
        for _, manifest in outputs
        if manifest is not None and key in manifest[ORIGIN].get("models", {})
    )
    return {
        "repository": settings.repository,
        "path": settings.path,
        "generated": settings.tiny is not None,
        "revision": settings.revision,
        "fetched": _fetched(folder),
        "contents": dict(contents.most_common()),
        "dtype": settings.dtype,
    }


def _data_set(file: Path, settings: Dataset) -> dict[str, Any]:
    return {
        "repository": settings.repository,
        "path": settings.path,
        "generated": settings.tiny is not None,
        "revision": settings.revision,
        "fetched": _fetched(file.parent),
        "sha256": file_digest(file) if file.is_file() else None,
    }


def _fetched(folder: Path) -> Any:
    """The commit of a download, from its `fetched.json`."""
    for place in (folder, *folder.parents[:2]):
        try:
            return json.loads((place / "fetched.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
    return None


def _rules(paths: RunPaths) -> dict[str, Any]:
    """Seconds of each rule's jobs: of the last attempt and, as a part of them, of those that it resumed."""
    try:
        costs = budget.measured(paths)
    except ValueError:
        return {}
    return {
        cost.rule: {
            "jobs": cost.jobs,
            "seconds": round(cost.seconds, 1),
            "earlier_attempts": cost.earlier_attempts,
            "earlier_seconds": round(cost.earlier_seconds, 1),
        }
        for cost in costs
    }


def _tables(config: Config, paths: RunPaths) -> Iterator[tuple[str, Path, bool]]:
    """Tables of generated rows: name, file, and whether their first turns are another table's."""
    for artifact in Artifacts(config, paths).all:
        if artifact.output.shards is not None and artifact.schema is not None:
            (file,), condition = artifact.files, artifact.values.get("condition")
            conditions = (config.shared_t1() if artifact.output.name == SHARED_T1_STUDY else config).conditions
            shares_first = condition is not None and conditions[condition].first_turn is not None
            yield name_in_run(file.with_suffix(""), paths), file, shares_first


def _generated(config: Config, paths: RunPaths) -> dict[str, dict[str, int]]:
    """Responses, and the tokens of their prompts and of themselves; a reused T1 is counted where it was generated."""
    counts = {}
    for name, path, shares_first in _tables(config, paths):
        try:
            columns = ["prompt_tokens", "response_tokens", *(["turn"] if shares_first else [])]
            table = pq.read_table(path, columns=columns)
        except (OSError, pa.ArrowInvalid):
            continue
        if shares_first:
            table = table.filter(pc.greater(table["turn"], 1))
        sums = {column: pc.sum(table[column]).as_py() or 0 for column in ("prompt_tokens", "response_tokens")}
        counts[name] = {"responses": len(table), **sums}
    total = {
        key: sum(table[key] for table in counts.values()) for key in ("responses", "prompt_tokens", "response_tokens")
    }
    return {"all": total, **counts}


def _devices(config: Config, paths: RunPaths) -> dict[str, list[str]]:
    """The devices that generated responses, each with its tables."""
    tables: dict[str, set[str]] = {}
    for name, path, _ in _tables(config, paths):
        try:
            values = pc.unique(pq.read_table(path, columns=["device"])["device"]).to_pylist()
        except (OSError, pa.ArrowInvalid):
            continue
        for value in values:
            tables.setdefault(value, set()).add(name)
    return {device: sorted(names) for device, names in sorted(tables.items())}
