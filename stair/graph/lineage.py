"""From a file of a run back to everything that it was made from, and what would make it stale."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stair.graph.artifacts import Artifact
from stair.graph.recorded_origin import TAKEN_FROM, missing_in, read_manifest, shown
from stair.graph.settings import CODE
from stair.graph.verify import Finding, Verification


@dataclass
class Lineage:
    """An output and, in turn, the outputs that it was made from."""

    artifact: Artifact
    finding: Finding
    manifest: dict[str, Any]
    behind: list[Lineage | Path]
    """Outputs of this run, and files from elsewhere."""


def lineage(verification: Verification, file: Path) -> Lineage:
    """The lineage of a file.

    Raises:
        ValueError: the file is not an output of this run.
    """
    wanted = file.resolve()
    by_file = {path.resolve(): artifact for path, artifact in verification.artifacts.by_file.items()}
    # A model's or a controller's folder has its manifest in it.
    found = by_file.get(wanted) or by_file.get(wanted / "manifest.json")
    if found is None:
        folder = verification.paths.folder
        raise ValueError(
            f"{file} is not an output of the run in {folder}; outputs are listed by: stair verify --json --run {folder}"
        )
    return _trace(verification, by_file, found, {})


def _trace(
    verification: Verification, by_file: dict[Path, Artifact], artifact: Artifact, known: dict[int, Lineage]
) -> Lineage:
    if id(artifact) in known:
        return known[id(artifact)]
    try:
        manifest = read_manifest(artifact.manifest)
    except (OSError, ValueError):
        manifest = {}
    traced = Lineage(artifact, verification.finding(artifact), manifest, [])
    known[id(artifact)] = traced
    inputs = list(artifact.inputs)
    for model in artifact.models:
        inputs.append(verification.paths.model_folder(verification.config, model) / "model.safetensors")
    seen: set[int] = set()
    for file in inputs:
        source = by_file.get(file.resolve())
        if source is None:
            traced.behind.append(file)
        elif id(source) not in seen:
            seen.add(id(source))
            traced.behind.append(_trace(verification, by_file, source, known))
    return traced


def told(verification: Verification, root: Lineage) -> Iterator[str]:
    """The lineage as indented lines; what has been told before is named only."""
    yield from _told(verification, root, "", set())
    yield ""
    yield "It would be made again"
    code = CODE in root.artifact.settings
    yield "  when one of these settings changes: " + ", ".join(sorted(root.artifact.settings.keys() - {CODE})) + "."
    if root.artifact.inputs:
        yield "  when one of the files that it is made from does."
    if root.artifact.models:
        yield f"  when the contents of the model do: {', '.join(root.artifact.models)}."
    if code:
        yield "  when the code of this stage changes, comments and docstrings apart."
    else:
        yield "  not when code changes: this stage generates. `stair verify` says where the code was another."


def _told(verification: Verification, node: Lineage, indent: str, seen: set[int]) -> Iterator[str]:
    artifact, manifest = node.artifact, node.manifest
    names = ", ".join(shown(file, verification.paths) for file in artifact.files[:3])
    if id(artifact) in seen:
        yield f"{indent}{names} (above)"
        return
    seen.add(id(artifact))
    yield f"{indent}{names}  [{node.finding.state}]"
    inner = indent + "  "
    versions = manifest.get("versions", {})
    made = f"{inner}made by {artifact.title}"
    if manifest:
        shown_versions = ", ".join(
            f"{name} {versions[name]}" for name in ("stair", "torch", "transformers") if name in versions
        )
        made += f" on {manifest.get('sealed', '?')}, code {str(manifest.get('source', '?'))[:12]}, {shown_versions}"
    yield made
    yield from (f"{inner}taken from {manifest[source]}" for source in TAKEN_FROM if source in manifest)
    yield from (f"{inner}! {reason}" for reason in node.finding.reasons)
    if missing := missing_in(manifest):
        yield inner + missing
    settings = sorted(artifact.settings.keys() - {CODE})
    yield f"{inner}settings: {', '.join(settings[:8])}" + (
        f" and {len(settings) - 8} more" if len(settings) > 8 else ""
    )
    for behind in node.behind:
        if isinstance(behind, Path):
            yield f"{inner}{shown(behind, verification.paths)} (from outside this run)"
        else:
            yield from _told(verification, behind, inner, seen)


def as_json(verification: Verification, root: Lineage) -> dict[str, Any]:
    """The lineage for programs: every output once, by the name of its first file, with the names of what it was made from."""
    nodes: dict[str, Any] = {}

    def add(node: Lineage) -> str:
        name = shown(node.artifact.files[0], verification.paths)
        if name not in nodes:
            nodes[name] = entry = {
                "rule": node.artifact.output.name,
                "files": [shown(file, verification.paths) for file in node.artifact.files],
                "state": node.finding.state,
                "reasons": node.finding.reasons,
                "settings": node.artifact.settings,
                "sealed": node.manifest.get("sealed"),
                "source": node.manifest.get("source"),
                "versions": node.manifest.get("versions", {}),
            }
            entry |= {source: node.manifest[source] for source in TAKEN_FROM if source in node.manifest}
            entry["inputs"] = [str(behind) if isinstance(behind, Path) else add(behind) for behind in node.behind]
        return name

    return {"file": add(root), "outputs": nodes}
