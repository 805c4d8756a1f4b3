"""What a file was made from, and what makes it stale: in a few lines, and as the tree of all inputs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from textwrap import wrap

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.pipeline.job_inputs import has_job
from stair.pipeline.jobs import JOBS
from stair.pipeline.verify import Fault, Receipts, again, digests, faults_of, other_code, remedy
from stair.records.manifest import (
    CODE,
    CONFIGURATION,
    COPIED_FROM,
    SUFFIX,
    Manifest,
    name_in_run,
    owner_of,
    package_versions,
)

_NAMED, _SETTINGS = 3, 8
_TITLE = 13
"""Columns of a topic's name."""
_LINES = {"models": 3}
"""Lines of a topic, for others 2; its end is cut off."""


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


# ---------------------------------------------------------------- in a few lines


def origin_summary(config: Config, paths: RunPaths, receipts: Receipts, made: Manifest, width: int) -> Iterator[str]:
    """At most 20 lines of `width` columns; only the file's name and the command may be longer."""
    every = list(_lineage(receipts, made))
    digest = digests(receipts.folder)
    found = [fault for each in every for fault in faults_of(config, receipts, each, digest, measured=False)]
    facts = made.content
    copied = f", copied from {facts[COPIED_FROM]}" if COPIED_FROM in facts else ""
    topics = {
        "made by": [f"{made.title} on {facts['sealed']}{copied}"],
        "responses": _responses(every),
        "models": _models(config, every),
        "controllers": sorted("/".join(each.wildcards.values()) for each in _of_stage(every, "training")),
        "data": _data(config, every),
        "code": _code(config, receipts, every),
        "versions": _versions(every),
        "hardware": dict.fromkeys(_machine(facts) for each in every for facts in each.machines),
        "stale": _stale(config, made, found),
    }
    yield receipts.name(made)
    for topic, texts in topics.items():
        wide = width - _TITLE
        text, most = "; ".join(texts), _LINES.get(topic, 2)
        lines = wrap(
            text, wide, max_lines=most, placeholder=" ... (--full)", break_long_words=False, break_on_hyphens=False
        )
        yield from (f"{'' if place else topic:{_TITLE}}{line}" for place, line in enumerate(lines))
    if not has_job(config, made.rule, made.wildcards):
        command = "nothing makes it: the configuration has no such job today"
    else:
        command = remedy(config, paths, found) if found else again(config, paths, receipts, made)
    yield f"{'make again':{_TITLE}}{command}"


def _lineage(receipts: Receipts, made: Manifest) -> Iterator[Manifest]:
    """A manifest, and all manifests that it was made from, each once."""
    seen, waiting = {id(made)}, [made]
    while waiting:
        each = waiting.pop()
        yield each
        makers = (receipts.made[name] for name in each.inputs if name in receipts.made)
        new = {id(maker): maker for maker in makers if id(maker) not in seen}
        seen |= new.keys()
        waiting += new.values()


def _title(receipts: Receipts, manifest: Manifest) -> str:
    name = receipts.name(manifest)
    return ", ".join([*manifest.files][:_NAMED]) if name in manifest.files else name


def _of_stage(every: Iterable[Manifest], stage: str) -> list[Manifest]:
    return [each for each in every if each.rule in JOBS and JOBS[each.rule].stage == stage]


def _responses(every: Sequence[Manifest]) -> Iterator[str]:
    """Responses of each stage; of an archive, which lacks these, those that were scored."""
    stages = {stage: _of_stage(every, stage) for stage in ("rollouts", "evaluation", "scores")}
    if stages["evaluation"]:
        del stages["scores"]
    for stage, manifests in stages.items():
        count = sum(
            each.content.get("responses") or sum(each.content.get("verdicts", {}).values()) for each in manifests
        )
        missing = sum(len(each.content.get("missing", ())) for each in manifests)
        if count:
            files = "1 file" if len(manifests) == 1 else f"{len(manifests)} files"
            yield f"{stage} {count:,} in {files}{f', {missing} missing' if missing else ''}"


def _models(config: Config, every: Iterable[Manifest]) -> Iterator[str]:
    revisions = defaultdict[str, set[str]](set)
    for each in every:
        if "model" in each.wildcards:
            revisions[each.wildcards["model"]] |= {str(each.content.get("model_revision", ""))[:12]} - {""}
    for model, contents in sorted(revisions.items()):
        known = config.models.get(model)
        source = "" if known is None else f" from {known.path or known.repository}"
        yield f"{model}{source} {' and '.join(sorted(contents))}".rstrip()


def _data(config: Config, every: Iterable[Manifest]) -> Iterator[str]:
    """The problems of each benchmark, and the records of each model's training pool where these differ."""
    counts = defaultdict[str, set[int]](set)
    for each in _of_stage(every, "data"):
        facts = each.content
        if {"problems", "counts"} & facts.keys():
            name = each.wildcards.get("benchmark", "training_pool")
            counts[name].add(facts["counts"]["records"] if "counts" in facts else facts["problems"])
    for name, found in sorted(counts.items()):
        known = config.training_pool if name == "training_pool" else config.benchmarks.get(name)
        source = "" if known is None else f" ({known.path or known.repository or 'generated'})"
        yield f"{name} {' or '.join(map(str, sorted(found)))}{source}"


def _code(config: Config, receipts: Receipts, every: Sequence[Manifest]) -> Iterator[str]:
    """Whether the present code made them all, and whether the same code made the outputs of one rule."""
    made, *inputs = every
    others = sorted(receipts.name(each) for each in inputs if other_code(config, each))
    yield f"made by {'other code than ' if other_code(config, made) else ''}the present code"
    codes = defaultdict[str, set[str]](set)
    for each in every:
        codes[each.rule].add(str(each.content.get("source")))
    yield from (f"{len(found)} versions of {rule}" for rule, found in codes.items() if len(found) > 1)
    if inputs:
        named = f" ({', '.join(others)})" if others else ""
        yield f"inputs made by other code: {len(others)} of {len(inputs)}{named}"


def _versions(every: Sequence[Manifest]) -> Iterator[str]:
    """Each package whose versions differ between the inputs, or from the installed one."""
    installed, different = package_versions(), False
    for package in sorted({name for each in every for name in each.content["versions"]}):
        counts = Counter(each.content["versions"].get(package, "none") for each in every)
        now = installed.get(package, "none")
        if counts.keys() != {now}:
            different = True
            yield f"{package} {' and '.join(f'{version} ({count})' for version, count in counts.items())}, now {now}"
    if not different:
        names = (name for name in ("python", "torch", "transformers") if name in installed)
        yield f"the installed ones: {', '.join(f'{name} {installed[name]}' for name in names)}"


def _machine(facts: dict[str, object]) -> str:
    gpus = facts.get("gpus")
    devices = (
        " and ".join(f"{count} x {name}" for name, count in Counter(gpus).items()) if isinstance(gpus, list) else ""
    )
    return f"{facts.get('processor')} with {facts.get('cores')} cores, {facts.get('memory')} GiB, {devices or 'no GPU'}"


def _stale(config: Config, made: Manifest, found: Sequence[Fault]) -> Iterator[str]:
    """What is wrong now; else what would make it stale."""
    if found:
        yield from (f"yes: {fault.file} is {fault.state}: {fault.reason}" for fault in found)
    elif not has_job(config, made.rule, made.wildcards):
        yield "no"
    else:
        yield f"no; it becomes stale if any of these changes: {', '.join(_changes(made, sections=True))}"


def _changes(made: Manifest, *, sections: bool = False) -> Iterator[str]:
    """What makes an output stale: its inputs, its settings or their sections, and of what shows results the code."""
    if made.inputs:
        yield "its inputs"
    if CODE in made.settings:
        yield "its code"
    if CONFIGURATION in made.settings:
        yield "the configuration (but places and speed)"
    keys = sorted(made.settings.keys() - {CODE, CONFIGURATION})
    yield from dict.fromkeys(key.rpartition(".")[0] or key for key in keys) if sections else keys


# ---------------------------------------------------------------- the tree


def origin_tree(config: Config, receipts: Receipts, made: Manifest) -> Iterator[str]:
    """The inputs of a file and theirs, as indented lines, and what would make it stale. A second occurrence is a name alone."""
    digest = digests(receipts.folder)
    printed = set[str]()

    def lines(manifest: Manifest, indent: str) -> Iterator[str]:
        name, inner, facts = receipts.name(manifest), indent + "  ", manifest.content
        if name in printed:
            yield f"{indent}{_title(receipts, manifest)} (above)"
            return
        printed.add(name)
        yield f"{indent}{_title(receipts, manifest)}"
        versions = "".join(f", {each} {facts['versions'].get(each)}" for each in ("torch", "transformers"))
        yield f"{inner}made by {manifest.title} on {facts['sealed']}, code {str(facts.get('source'))[:12]}{versions}"
        if COPIED_FROM in facts:
            yield f"{inner}copied from {facts[COPIED_FROM]}"
        for fault in faults_of(config, receipts, manifest, digest, measured=False):
            yield f"{inner}! {fault.file} is {fault.state}: {fault.reason}"
        if manifest.missing_note:
            yield inner + manifest.missing_note
        keys = sorted(manifest.settings.keys() - {CODE})
        more = f" and {len(keys) - _SETTINGS} more" if len(keys) > _SETTINGS else ""
        yield f"{inner}settings: {', '.join(keys[:_SETTINGS])}{more}"
        makers = {
            receipts.name(receipts.made[each]) if each in receipts.made else each: each for each in manifest.inputs
        }
        for title, each in makers.items():
            if each in receipts.made:
                yield from lines(receipts.made[each], inner)
            else:
                yield f"{inner}{title} (from outside this run, or without a manifest)"

    yield from lines(made, "")
    yield f"It becomes stale if any of these changes: {', '.join(_changes(made))}"
