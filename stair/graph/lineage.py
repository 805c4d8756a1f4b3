"""The lineage of a file: everything that it was made from, and the changes that would make it stale."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stair.graph.artifacts import Artifact
from stair.graph.integrity import Finding
from stair.graph.recorded_origin import COPIED_FROM, missing_note, name_in_run, read_manifest
from stair.graph.result_settings import CODE
from stair.graph.verify import Verification


@dataclass
class Lineage:
    """An output and, in turn, the outputs that it was made from."""

    artifact: Artifact
    finding: Finding
    manifest: dict[str, Any]
    inputs: list[Lineage | Path]
    """The inputs: outputs of this run, and files from elsewhere."""


def lineage(verification: Verification, file: Path) -> Lineage:
    """The lineage of a file.

    Raises:
        ValueError: the file is not an output of this run.
    """
    path = file.resolve()
    by_file = {output.resolve(): artifact for output, artifact in verification.artifacts.by_file.items()}
    # A model's or a controller's folder has its manifest in it.
    artifact = by_file.get(path) or by_file.get(path / "manifest.json")
    if artifact is None:
        folder = verification.paths.folder
        raise ValueError(
            f"{file} is not an output of the run in {folder}; outputs are listed by: stair verify --json --run {folder}"
        )
    return _trace(verification, by_file, artifact, {})


def _trace(
    verification: Verification, by_file: dict[Path, Artifact], artifact: Artifact, traced: dict[int, Lineage]
) -> Lineage:
    if id(artifact) in traced:
        return traced[id(artifact)]
    try:
        manifest = read_manifest(artifact.manifest)
    except (OSError, ValueError):
        manifest = {}
    node = Lineage(artifact, verification.finding(artifact), manifest, [])
    traced[id(artifact)] = node
    files = list(artifact.inputs)
    for model in artifact.models:
        files.append(verification.paths.model_folder(verification.config, model) / "model.safetensors")
    added: set[int] = set()
    for file in files:
        source = by_file.get(file.resolve())
        if source is None:
            node.inputs.append(file)
        elif id(source) not in added:
            added.add(id(source))
            node.inputs.append(_trace(verification, by_file, source, traced))
    return node


def lineage_lines(verification: Verification, root: Lineage) -> Iterator[str]:
    """The lineage as indented lines; an output's second occurrence is its name alone."""
    yield from _lines(verification, root, "", set())
    yield ""
    yield "It becomes stale"
    code = CODE in root.artifact.settings
    yield "  when one of these settings changes: " + ", ".join(sorted(root.artifact.settings.keys() - {CODE})) + "."
    if root.artifact.inputs:
        yield "  when one of its input files changes."
    if root.artifact.models:
        yield f"  when the contents of the model change: {', '.join(root.artifact.models)}."
    if code:
        yield "  when the code of this stage changes; comments and docstrings do not count."
    else:
        yield "  not when code changes, because this stage generates; `stair verify` reports changed code."


def _lines(verification: Verification, node: Lineage, indent: str, printed: set[int]) -> Iterator[str]:
    artifact, manifest = node.artifact, node.manifest
    names = ", ".join(name_in_run(file, verification.paths) for file in artifact.files[:3])
    if id(artifact) in printed:
        yield f"{indent}{names} (above)"
        return
    printed.add(id(artifact))
    yield f"{indent}{names}  [{node.finding.state}]"
    inner = indent + "  "
    versions = manifest.get("versions", {})
    maker = f"{inner}made by {artifact.title}"
    if manifest:
        packages = ", ".join(
            f"{name} {versions[name]}" for name in ("stair", "torch", "transformers") if name in versions
        )
        maker += f" on {manifest.get('sealed', '?')}, code {str(manifest.get('source', '?'))[:12]}, {packages}"
    yield maker
    yield from (f"{inner}copied from {manifest[key]}" for key in COPIED_FROM if key in manifest)
    yield from (f"{inner}! {reason}" for reason in node.finding.reasons)
    if missing := missing_note(manifest):
        yield inner + missing
    settings = sorted(artifact.settings.keys() - {CODE})
    yield f"{inner}settings: {', '.join(settings[:8])}" + (
        f" and {len(settings) - 8} more" if len(settings) > 8 else ""
    )
    for source in node.inputs:
        if isinstance(source, Path):
            yield f"{inner}{name_in_run(source, verification.paths)} (from outside this run)"
        else:
            yield from _lines(verification, source, inner, printed)


def as_json(verification: Verification, root: Lineage) -> dict[str, Any]:
    """The lineage for programs: every output once, by the name of its first file, with the names of its inputs."""
    nodes: dict[str, Any] = {}

    def add(node: Lineage) -> str:
        name = name_in_run(node.artifact.files[0], verification.paths)
        if name not in nodes:
            nodes[name] = entry = {
                "rule": node.artifact.output.name,
                "files": [name_in_run(file, verification.paths) for file in node.artifact.files],
                "state": node.finding.state,
                "reasons": node.finding.reasons,
                "settings": node.artifact.settings,
                "sealed": node.manifest.get("sealed"),
                "source": node.manifest.get("source"),
                "versions": node.manifest.get("versions", {}),
            }
            entry |= {key: node.manifest[key] for key in COPIED_FROM if key in node.manifest}
            entry["inputs"] = [str(source) if isinstance(source, Path) else add(source) for source in node.inputs]
        return name

    return {"file": add(root), "outputs": nodes}
