"""Manifests: receipts of what the outputs of a job were made from. Written once a job (`stair.pipeline.verify` reads them).

A manifest is a JSON file beside the job's first output (`<file>.manifest.json`), or `folder.manifest.json` in an output folder.
It has the rule with its wildcards, the SHA-256 of every output and input, the settings, the fingerprint of the code, versions,
machine and time, facts of the stage, and a checksum of all this. Names are relative to the run's folder; a file outside the
project has its absolute path.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from stair.records.files import matching, read_mapping, write_json
from stair.records.keys import PROTOCOL_VERSION, digest_of, file_digest

SUFFIX = ".manifest.json"
_FOLDER = f"folder{SUFFIX}"

CODE, CONFIGURATION = "code", "configuration"
"""The settings with the digest of a job's code, and of the whole configuration; every other setting is a place in the
configuration, or a version."""

CONFIGURATION_CHANGED = "the configuration has changed"
"""The reason of an output that depends on the whole configuration."""

COPIED_FROM = "copied_from"
"""The key that names the run from which an output was copied."""

GENERATED_ON = "generated_on"
"""The key with the machines (`hardware`) of the shards whose work a seal wrote. The seal itself may have run elsewhere."""

GENERATED_BY = "generated_by"
"""The key with the fingerprints of these shards' code. The seal itself may have run other code."""

SECONDS, GENERATING_SECONDS, GENERATED = "seconds", "generating_seconds", "generated"
"""Keys of measured time: the seconds of the job; for a seal also those of its shards, and the pieces of work (responses or
histories) that they made in these seconds."""

MEASURED = "measured"
"""The key with the SHA-256 of files that the shards of a job measured, by name."""

_CHECKSUM = "sha256"
"""The key with the digest of all other keys."""

_NOT_OUTPUTS = ("work", "logs", ".snakemake", "replay/*/states")
"""Folders of a run without manifests, some with many files."""

_PACKAGES = (
    "stair", "torch", "transformers", "tokenizers", "safetensors", "numpy", "pyarrow", "peft", "answer-grader", "mpmath",
)  # fmt: skip


def package_versions() -> dict[str, str]:
    """Versions of the installed packages that can change a result, read without importing them."""
    versions = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


@cache
def hardware() -> dict[str, Any]:
    """This machine: system, processor, cores, memory in GiB, GPUs as their driver names them."""
    import psutil  # only the pipeline has it; training and benchmarks import this module without it

    facts: dict[str, Any] = {"system": platform.platform(), "processor": platform.machine()}
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        facts["processor"] = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    facts["cores"] = os.cpu_count()
    facts["memory"] = round(psutil.virtual_memory().total / 2**30)
    facts["gpus"] = []
    if shutil.which("nvidia-smi"):
        command = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            listing = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
            facts["gpus"] = [line.strip() for line in listing.splitlines() if line.strip()]
    return facts


def machine_text(machine: Mapping[str, Any]) -> str:
    """What `hardware` says of a machine, for people."""
    gpus = ", ".join(machine.get("gpus") or ()) or "no GPU"
    return f"{machine.get('processor')}, {machine.get('cores')} cores, {machine.get('memory')} GiB, {gpus}"


@cache
def commit() -> str | None:
    """The project's commit in Git, with a word on changes since; None where there is none."""
    git = ("git", "-C", str(Path(__file__).parent))
    try:
        head = subprocess.run(
            (*git, "rev-parse", "HEAD"), capture_output=True, text=True, check=True, timeout=10
        ).stdout
        changes = subprocess.run((*git, "status", "--porcelain", "-uno"), capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return f"{head.strip()}, changed since" if changes.stdout.strip() else head.strip()


@cache
def source_digest(*parts: str) -> str:
    """SHA-256 over the files of packages, or of folders and modules in them (`stair.stages.replay.analysis`).

    Of the first call in a process: a process runs the code that it has imported, whatever changes on the disk meanwhile.
    """
    digest = hashlib.sha256()
    for part in parts:
        package, *names = part.split(".")
        spec = find_spec(package)
        assert spec is not None and spec.origin is not None, f"the package {package} is not installed"
        root = Path(spec.origin).parent
        place = root.joinpath(*names)
        files = place.rglob("*") if place.is_dir() else [place.with_suffix(".py")]
        own = (file for file in files if not file.name.startswith(".") and not file.name.endswith("~"))
        for path in sorted(file for file in own if file.is_file() and "__pycache__" not in file.parts):
            digest.update(f"{path.relative_to(root.parent).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


# ---------------------------------------------------------------- files


def manifest_path(output: Path) -> Path:
    """The manifest of a job, by its first output or its output folder."""
    return output / _FOLDER if output.is_dir() else output.with_name(output.name + SUFFIX)


def owner_of(manifest: Path) -> Path:
    """The first output or the output folder of a job, by the path of its manifest."""
    return manifest.parent if manifest.name == _FOLDER else manifest.with_name(manifest.name.removesuffix(SUFFIX))


def manifest_files(folder: Path) -> Iterator[Path]:
    """Every manifest of a run; none of a run that does not exist. Raises OSError for a folder that cannot be read."""

    def refuse(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise error

    for place, folders, files in os.walk(folder, onerror=refuse):
        names = {name: name_in_run(Path(place, name), folder) for name in sorted(folders)}
        folders[:] = [name for name, path in names.items() if not any(fnmatch(path, each) for each in _NOT_OUTPUTS)]
        yield from (Path(place, name) for name in sorted(files) if name.endswith(SUFFIX) and not name.startswith("."))


def name_in_run(file: Path, folder: Path) -> str:
    """A file's path relative to the run's folder; a file elsewhere keeps its path."""
    return file.relative_to(folder).as_posix() if file.is_relative_to(folder) else str(file)


def is_outside(name: str) -> bool:
    """Whether a name in a run leads out of the run's folder."""
    return Path(name).is_absolute() or ".." in Path(name).parts


class Origin(NamedTuple):
    """What the outputs of a job are made from."""

    inputs: Mapping[str, str]
    """SHA-256 of the input files, by their names in the run."""
    settings: Mapping[str, Any]
    """The configuration that the outputs depend on, by place."""
    source: str
    """The fingerprint of the code that the job runs."""
    versions: Mapping[str, str]

    @classmethod
    def now(cls, inputs: Mapping[str, str], settings: Mapping[str, Any], source: str) -> Origin:
        """With the present versions. A job calls it when it starts, because files can change while it works."""
        return cls(inputs, settings, source, package_versions())


def write_manifest(
    folder: Path, outputs: Sequence[Path], *, rule: str, wildcards: Mapping[str, str], origin: Origin, **facts: Any
) -> Path:
    """Writes the manifest of a job.

    Args:
        outputs: the job's files; an output folder stands for all files below it.
        rule, wildcards: the Snakemake rule and the job's wildcards, without those of shards.
        facts: more keys, of the stage.
    """
    path = manifest_path(outputs[0])
    files = [file for output in outputs for file in (_files_below(output) if output.is_dir() else (output,))]
    content = {
        "rule": rule,
        "wildcards": dict(wildcards),
        "files": {name_in_run(file, folder): file_digest(file) for file in files},
        "inputs": origin.inputs,
        "settings": origin.settings,
        "protocol_version": PROTOCOL_VERSION,
        "source": origin.source,
        "versions": origin.versions,
        "machine": hardware(),
        "sealed": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    write_json(path, with_checksum(content | facts))
    return path


def with_checksum(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a manifest with the checksum of its present keys."""
    return {**content, _CHECKSUM: _checksum(content)}


def _checksum(content: Mapping[str, Any]) -> str:
    return digest_of({key: _as_recorded(value) for key, value in content.items() if key != _CHECKSUM})


def _files_below(folder: Path) -> list[Path]:
    return [path for path in matching(folder, "**/*") if path.is_file() and not path.name.endswith(SUFFIX)]


@dataclass(frozen=True)
class Manifest:
    path: Path
    rule: str
    wildcards: dict[str, str]
    files: dict[str, str]
    """SHA-256 of the job's outputs."""
    inputs: dict[str, str]
    settings: dict[str, Any]
    content: dict[str, Any]
    """Every key, the stage's facts included."""

    @property
    def title(self) -> str:
        """The job for people: its rule and its wildcards."""
        return " ".join((self.rule, *self.wildcards.values()))

    @property
    def machines(self) -> list[Any]:
        """The machines (`hardware`) that made the outputs: those of its shards, else its job's."""
        return self.content.get(GENERATED_ON) or [self.content.get("machine")]

    @property
    def codes(self) -> list[str]:
        """The fingerprints of the code that made the outputs: those of its shards, else its job's."""
        return self.content.get(GENERATED_BY) or [str(self.content.get("source", ""))]

    @property
    def seconds(self) -> float:
        """What its job took, for a seal with the shards; 0 if it does not say."""
        return float(self.content.get(SECONDS, 0.0)) + float(self.content.get(GENERATING_SECONDS, 0.0))

    def is_in_place(self, folder: Path) -> bool:
        """Whether it lies beside an output of its own, or in their folder. In a copy of a folder inside the run, it does not."""
        owner = name_in_run(owner_of(self.path), folder)  # an archive may lack this output itself
        beside = os.path.dirname(owner)
        return any(os.path.dirname(name) == beside or name.startswith(f"{owner}/") for name in self.files)

    @property
    def missing_note(self) -> str:
        """A note with the number of missing responses that it lists; empty if it lists none."""
        missing = len(self.content.get("missing", ()))
        counted = "1 response is" if missing == 1 else f"{missing} responses are"
        return f"{counted} missing; its manifest gives the reasons" if missing else ""


def read_manifest(path: Path) -> Manifest:
    """Reads a manifest.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not JSON, a part of it is missing or of another kind, or it does not match its checksum.
    """
    path.stat()
    with open(path, "rb"):
        content = read_mapping(path)
    return manifest_of(path, content)


def manifest_of(path: Path, content: Mapping[str, Any]) -> Manifest:
    """A manifest from its content. Raises ValueError where a part of it is missing or of another kind, or was changed."""
    if content.get(_CHECKSUM) != _checksum(content):
        raise ValueError(f"{path} does not match its own checksum")
    parts = [content.get(key) for key in ("wildcards", "files", "inputs", "settings", "versions")]
    texts = [content.get("rule"), content.get("sealed")]
    listed = isinstance(content.get("missing", []), list)
    if listed and all(isinstance(part, dict) for part in (*parts, content.get(MEASURED, {}))):
        wildcards, files, inputs, settings, _ = parts
        texts += [*wildcards.values(), *files.values(), *inputs.values()]  # type: ignore[union-attr]
        if all(isinstance(text, str) for text in texts) and files:
            return Manifest(path, content["rule"], wildcards, files, inputs, settings, dict(content))  # type: ignore[arg-type]
    raise ValueError(f"{path} is no manifest: a part of it is missing or of another kind")


def recorded_fact(manifest: Path, key: str) -> Any:
    """A fact of a manifest. Raises ValueError where the manifest cannot be read or lacks it."""
    facts = read_mapping(manifest)
    if key not in facts:
        raise ValueError(f"{manifest} lacks '{key}'; delete the output that it belongs to, and make it again")
    return facts[key]


def missing_responses(output: Path) -> list[dict[str, Any]]:
    """The missing responses in an output's manifest, each with its reason; none if the manifest cannot be read."""
    try:
        missing: list[dict[str, Any]] = read_mapping(manifest_path(output)).get("missing", [])
    except ValueError:
        return []
    return missing


# ---------------------------------------------------------------- comparison with the present


def changed_settings(recorded: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """A clause for each setting that differs, down to the value that does. Code is none of them."""
    return [
        change
        for key in sorted((recorded.keys() | now.keys()) - {CODE})
        for change in _changed(key, recorded.get(key), _as_recorded(now.get(key)))
    ]


def _changed(key: str, was: Any, now: Any) -> list[str]:
    if was == now:
        return []
    if key == CONFIGURATION:
        return [CONFIGURATION_CHANGED]
    if isinstance(was, dict) and isinstance(now, dict):
        return [
            change
            for name in sorted(was.keys() | now.keys())
            for change in _changed(f"{key}.{name}", was.get(name), now.get(name))
        ]
    return [f"{key} was {_short(was)}, is {_short(now)}"]


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _as_recorded(value: Any) -> Any:
    """A value as JSON returns it: tuples are lists."""
    return json.loads(json.dumps(value))
