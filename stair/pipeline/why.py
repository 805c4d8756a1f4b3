"""What a file was made from, and what makes it stale: in a few lines, and as the tree of all inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from textwrap import wrap

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.pipeline.job_inputs import has_job
from stair.pipeline.jobs import JOBS
from stair.pipeline.verify import Receipts, again, digests, faults_of, other_code, remedy, version_notes
from stair.records.manifest import (
    CODE,
    CONFIGURATION,
    COPIED_FROM,
    SUFFIX,
    Manifest,
    machine_text,
    name_in_run,
    owner_of,
    package_versions,
)

_TITLE = 13
"""Columns of a topic's name."""


def maker_of(receipts: Receipts, file: Path) -> Manifest:
    """The manifest of a file, of an output folder, or of a manifest's own outputs.

    Raises:
        ValueError: no manifest names the file.
    """
    path = file.resolve()
    name = name_in_run(owner_of(path) if path.name.endswith(SUFFIX) else path, receipts.folder.resolve())
    known = receipts.made | {receipts.name(each): each for each in receipts.manifests}
    if name not in known:
        raise ValueError(
            f"{file} is not an output of the run in {receipts.folder}; a manifest beside each output names its files"
        )
    return known[name]


def origin_summary(config: Config, paths: RunPaths, receipts: Receipts, made: Manifest, width: int) -> Iterator[str]:
    """At most 20 lines of `width` columns; only the file's name and the command may be longer."""
    every = list(_lineage(receipts, made))
    digest = digests(receipts.folder)
    found = [fault for each in every for fault in faults_of(config, receipts, each, digest, measured=False)]
    others = [receipts.name(each) for each in every if other_code(config, each)]
    installed = package_versions()
    if found:
        stale = [f"yes: {fault.file} is {fault.state}: {fault.reason}" for fault in found]
        command = remedy(config, paths, found)
    elif has_job(config, made.rule, made.wildcards):
        anew = ", but the next start makes it again, because other code made it"
        no = f"no{anew if CODE in made.settings and other_code(config, made) else ''}"
        stale = [f"{no}; it becomes stale if any of these changes: {', '.join(_changes(made))}"]
        command = again(config, paths, receipts, made)
    else:
        stale, command = ["no"], "nothing makes it: the configuration has no such job today"
    topics: dict[str, Iterable[str]] = {
        "made by": [_made(made)],
        "responses": _responses(config, every),
        "models": _models(config, every),
        "controllers": ("/".join(each.wildcards.values()) for each in _of_stage(every, "training")),
        "data": _data(every),
        "code": [f"{len(others)} of {len(every)} outputs made by other code: {', '.join(others)}"]
        if others
        else ["made by the present code"],
        "versions": [*version_notes(every)]
        or [f"the installed ones: {', '.join(f'{name} {installed.get(name)}' for name in ('torch', 'transformers'))}"],
        "hardware": (machine_text(machine) for each in every for machine in each.machines if machine),
        "stale": stale,
    }
    yield receipts.name(made)
    for topic, texts in topics.items():
        text = "; ".join(sorted({*texts}))
        lines = wrap(text, width - _TITLE, max_lines=2, placeholder=" ... (--full)", break_on_hyphens=False)
        yield from (f"{'' if place else topic:{_TITLE}}{line}" for place, line in enumerate(lines))
    yield f"{'make again':{_TITLE}}{command}"


def _lineage(receipts: Receipts, made: Manifest) -> Iterator[Manifest]:
    """A manifest, and all manifests that it was made from, each once."""
    seen, waiting = {made.path}, [made]
    while waiting:
        yield (each := waiting.pop())
        for name in each.inputs:
            maker = receipts.made.get(name)
            if maker is not None and maker.path not in seen:
                seen.add(maker.path)
                waiting.append(maker)


def _made(manifest: Manifest) -> str:
    copied = f", copied from {manifest.content[COPIED_FROM]}" if COPIED_FROM in manifest.content else ""
    return f"{manifest.title} on {manifest.content['sealed']}{copied}"


def _of_stage(every: Iterable[Manifest], stage: str) -> list[Manifest]:
    return [each for each in every if each.rule in JOBS and JOBS[each.rule].stage == stage]


def _responses(config: Config, every: Sequence[Manifest]) -> Iterator[str]:
    """The generated responses of each stage; of an archive, which lacks these, those that were scored."""
    for stages in (("rollouts",), ("evaluation", "scores")):
        stage, manifests = next(((stage, found) for stage in stages if (found := _of_stage(every, stage))), ("", []))
        count = missing = 0
        for each in manifests:
            rows, lacking = each.content.get("responses"), len(each.content.get("missing", ()))
            if rows is None:
                rows, condition = sum(each.content["verdicts"].values()), each.wildcards["condition"]
                if condition in config.every_condition and config.first_turn(
                    condition
                ):  # its T1 is another condition's
                    rows -= rows // config.condition(condition).turns
            count, missing = count + rows, missing + lacking
        if count:
            yield f"{stage} {count:,}{f', {missing} missing' if missing else ''}"


def _models(config: Config, every: Iterable[Manifest]) -> Iterator[str]:
    for each in every:
        if revision := each.content.get("model_revision"):
            model = config.models.get(key := each.wildcards["model"])
            yield f"{key}{f' from {model.path or model.repository}' if model else ''} {revision[:12]}"


def _data(every: Iterable[Manifest]) -> Iterator[str]:
    """The problems of each benchmark, and the records of each model's training pool."""
    for each in _of_stage(every, "data"):
        count = each.content.get("problems", each.content.get("counts", {}).get("records"))
        if count is not None:
            yield f"{each.wildcards.get('benchmark', 'training pool')} {count}"


def _changes(made: Manifest) -> Iterator[str]:
    """What makes an output stale: its inputs, sections of its settings, and of what shows results the code."""
    if made.inputs:
        yield "its inputs"
    if CODE in made.settings:
        yield "its code"
    if CONFIGURATION in made.settings:
        yield "the configuration (but places and speed)"
    keys = made.settings.keys() - {CODE, CONFIGURATION}
    yield from sorted({key.rpartition(".")[0] or key for key in keys})


def origin_tree(config: Config, receipts: Receipts, made: Manifest) -> Iterator[str]:
    """The inputs of a file and theirs, as indented lines, and what would make it stale. A second occurrence is a name alone."""
    digest = digests(receipts.folder)
    printed = set[Path]()

    def lines(manifest: Manifest, indent: str) -> Iterator[str]:
        name, inner, facts = receipts.name(manifest), indent + "  ", manifest.content
        if manifest.path in printed:
            yield f"{indent}{name} (above)"
            return
        printed.add(manifest.path)
        yield f"{indent}{name}"
        codes = " and ".join(code[:12] for code in manifest.codes)
        versions = "".join(f", {each} {facts['versions'].get(each)}" for each in ("torch", "transformers"))
        yield f"{inner}made by {_made(manifest)}, code {codes}{versions}"
        for fault in faults_of(config, receipts, manifest, digest, measured=False):
            yield f"{inner}! {fault.file} is {fault.state}: {fault.reason}"
        if manifest.missing_note:
            yield inner + manifest.missing_note
        yield f"{inner}settings: {', '.join(sorted(manifest.settings))}"
        makers = {receipts.made[each].path if each in receipts.made else each: each for each in manifest.inputs}
        for each in makers.values():
            if each in receipts.made:
                yield from lines(receipts.made[each], inner)
            else:
                yield f"{inner}{each} (from outside this run, or without a manifest)"

    yield from lines(made, "")
    yield f"It becomes stale if any of these changes: {', '.join(_changes(made))}"
