"""The lineage of a file: everything that it was made from, and the changes that would make it stale."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from stair.pipeline.outputs import Output
from stair.pipeline.verify import Verification
from stair.records.manifest import CODE, CONFIGURATION, COPIED_FROM, SUFFIX, name_in_run

_SETTINGS = 8


def output_of(verification: Verification, file: Path) -> Output:
    """The output of a file, or of a controller's or backbone's folder. Raises ValueError without one."""
    folder = verification.paths.folder
    name = name_in_run(file.resolve(), folder.resolve()).removesuffix(f".{SUFFIX}").removesuffix(f"/{SUFFIX}")
    for output in verification.outputs:
        if name in (output.name, *output.files):
            return output
    raise ValueError(
        f"{file} is not an output of the run in {folder}; outputs are listed by: stair verify --json --run {folder}"
    )


def lineage_lines(verification: Verification, root: Output) -> Iterator[str]:
    """The lineage as indented lines; an output's second occurrence is its name alone."""
    yield from _lines(verification, root, "", set())
    if root.manifest is None:
        return
    yield ""
    yield "It becomes stale"
    keys = sorted(root.manifest.settings.keys() - {CODE, CONFIGURATION})
    if CONFIGURATION in root.manifest.settings:
        yield "  when a key of the configuration changes that says more than where and how fast jobs run."
    elif keys:
        yield f"  when one of these settings changes: {', '.join(keys)}."
    if root.inputs:
        yield "  when one of its input files changes."
    if CODE in root.manifest.settings:
        whole = CONFIGURATION in root.manifest.settings
        yield f"  when {'any file of the code' if whole else 'the code that makes it'} changes."
    else:
        yield "  not when code changes, because this stage generates; `stair verify` reports changed code."


def _lines(verification: Verification, output: Output, indent: str, printed: set[Output]) -> Iterator[str]:
    names = ", ".join(output.files[:3]) if output.name in output.files else output.name
    if output in printed:
        yield f"{indent}{names} (above)"
        return
    printed.add(output)
    yield f"{indent}{names}  [{'left out of the archive' if output.left_out else output.state}]"
    inner, manifest = indent + "  ", output.manifest
    if manifest is not None:
        facts, versions = manifest.content, manifest.content["versions"]
        packages = [f"{name} {versions[name]}" for name in ("stair", "torch", "transformers") if name in versions]
        code = str(facts.get("source"))[:12]
        yield f"{inner}made by {manifest.title} on {facts['sealed']}, code {code}, {', '.join(packages)}"
        if COPIED_FROM in facts:
            yield f"{inner}copied from {facts[COPIED_FROM]}"
    yield from (f"{inner}! {reason}" for reason in output.reasons)
    if manifest is not None:
        if manifest.missing_note:
            yield inner + manifest.missing_note
        settings = sorted(manifest.settings.keys() - {CODE})
        more = f" and {len(settings) - _SETTINGS} more" if len(settings) > _SETTINGS else ""
        yield f"{inner}settings: {', '.join(settings[:_SETTINGS])}{more}"
    # Outputs of the run, each once, and the names of files from outside.
    for source in dict.fromkeys(verification.by_file.get(name, name) for name in output.inputs):
        if isinstance(source, str):
            yield f"{inner}{source} (from outside this run)"
        else:
            yield from _lines(verification, source, inner, printed)
