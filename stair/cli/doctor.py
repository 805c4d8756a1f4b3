"""What this machine can run: one finding a line, with its remedy. Imports no torch."""

from __future__ import annotations

import os
import runpy
import shlex
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Literal, NamedTuple

from packaging.requirements import Requirement

from stair.cli.environment import met
from stair.config.model import Config
from stair.config.paths import RunPaths, anchored
from stair.engines.choice import engine_identity
from stair.models.hub import HubSource, hub_sources, missing_bytes, online, read_lock
from stair.pipeline.input_checks import input_faults, start_faults
from stair.pipeline.plan import Planner
from stair.records.files import bytes_text, existing_folder
from stair.records.gpus import VISIBLE, visible_gpus

_QUERY = ["nvidia-smi", "--query-gpu=index,name,memory.total,driver_version", "--format=csv,noheader,nounits"]
_PROBE = "import torch; print(torch.cuda.is_available(), torch.cuda.device_count())"
_PROBE_SECONDS = 60.0
_SMALL_GIB = 23
"""A 4B model in bfloat16 with its cache, and the 9B model alone, need more."""
_HUB_SECONDS = 2.0
_SPARE = 5_000_000_000
"""Bytes for work logs, captured states, tables and figures, and for the system."""
_SHOWN = 10_000_000
"""Fewer bytes of responses are not listed."""
_KERNELS = {"flash-attn", "causal-conv1d", "flash-linear-attention", "fla-core", "ninja", "einops"}
"""Packages that an environment may lack: the findings on settings and attention report those that a run needs."""
_NAMED = 4


class Finding(NamedTuple):
    """One line on one property of the machine."""

    topic: str
    """shell, devices, packages, settings, attention, disk, hub, slurm."""
    level: Literal["ok", "warning", "error"]
    text: str
    remedy: str = ""
    """A command, for warnings and errors."""


def examine(root: Path, config: Config | None, run: str) -> Iterator[Finding]:
    """All findings on this machine, and with a run those on its settings, downloads and disk.

    Args:
        config: the run; None for the machine alone.
        run: the argument of `stair reproduce --run`.
    """
    for each in met:
        text = f"{each.text}; stair and its jobs do without, plain snakemake does not"
        yield Finding("shell", "warning", text, each.remedy)
    encoding = sys.stdout.encoding or "utf-8"  # no file has it where a program reads the output
    if "–±×".encode(encoding, "replace").decode(encoding) != "–±×":
        text = f"{encoding}, the encoding of the output, lacks signs of the tables; a ? replaces them"
        yield Finding("shell", "warning", text, "export LC_ALL=C.UTF-8; unset PYTHONIOENCODING")
    faults, sound = list[str](), config
    if config is not None:
        paths = RunPaths.of(config)
        faults = list(dict.fromkeys(input_faults(config, paths)))
        sound = None if faults else config  # a run's needs follow from settings without a fault
    slurm = _slurm()
    yield from _devices(sound, scheduler=slurm.text.startswith("Slurm accepts"))
    yield from _packages(root)
    remedy = f"mend it; then: stair config --run {shlex.quote(run)}"
    yield from (Finding("settings", "error", fault, remedy) for fault in faults)
    if sound is not None:
        remedy = f"mend it; then: stair reproduce --run {shlex.quote(run)}"
        yield from (Finding("settings", "error", fault, remedy) for fault in start_faults(sound, paths))
        yield from _attention(sound)
        yield from _storage(sound, paths, run)
    yield slurm


def _output_of(command: list[str], seconds: float = 5.0) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a program; 124 if it does not end in time, 127 if it does not exist."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return 124, "", f"no answer within {seconds:.0f} s"
    except OSError as error:
        return 127, "", str(error)
    return done.returncode, done.stdout, done.stderr


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


# ---------------------------------------------------------------- devices


def _torch_cuda() -> str | None:
    """The CUDA that the installed torch is built for; None for a CPU build. Does not import torch."""
    try:
        path = metadata.distribution("torch").locate_file("torch/version.py")
    except metadata.PackageNotFoundError:
        return None
    return runpy.run_path(str(path)).get("cuda")


def _wants_gpu(config: Config | None) -> bool:
    """Whether a run's jobs may use a GPU."""
    return config is not None and config.transformers.device != "cpu"


def _devices(config: Config | None, *, scheduler: bool) -> Iterator[Finding]:
    """GPUs of this machine, and torch's build."""
    code, listed, fault = _output_of(_QUERY)
    gpus = [line.split(", ") for line in listed.splitlines() if line.count(", ") == 3] if code == 0 else []
    built = _torch_cuda()
    if code not in (0, 127):
        text = f"nvidia-smi fails: {_last_line(listed + fault) or f'exit code {code}'}"
        yield Finding("devices", "error", text, "reboot, or reinstall the NVIDIA driver; then: nvidia-smi")
    for number, name, memory, driver in gpus:
        text = f"GPU {number}: {name}, {int(float(memory)) / 1024:.0f} GiB, driver {driver}"
        if _wants_gpu(config) and float(memory) / 1024 < _SMALL_GIB:
            yield Finding(
                "devices", "warning", f"{text}; the paper's models need 24 GB or more", "stair reproduce --run tiny"
            )
        else:
            yield Finding("devices", "ok", text)
    if gpus:
        yield _torch_sees(built, len(gpus))
    elif code in (0, 127):
        yield _no_gpu(config, built, scheduler)


def _torch_sees(built: str | None, count: int) -> Finding:
    if built is None:
        text = f"torch {metadata.version('torch')} is a CPU build, and this machine has {count} GPUs"
        return Finding("devices", "error", text, "make env DEVICE=cuda")
    code, answer, fault = _output_of([sys.executable, "-c", _PROBE], _PROBE_SECONDS)
    if code == 0 and answer.startswith("True"):
        return Finding("devices", "ok", f"torch is built for CUDA {built} and uses {answer.split()[1]} of {count} GPUs")
    if len(visible_gpus()) == 0:
        return Finding("devices", "warning", f"{VISIBLE} hides the GPUs from jobs", f"unset {VISIBLE}")
    text = (
        f"torch is built for CUDA {built} and cannot use the GPUs: {_last_line(fault) or 'the driver may be too old'}"
    )
    return Finding("devices", "error", text, "make env DEVICE=cuda TORCH_INDEX=<index of builds for the driver's CUDA>")


def _no_gpu(config: Config | None, built: str | None, scheduler: bool) -> Finding:
    text = f"no GPU here; torch is {f'built for CUDA {built}' if built else 'a CPU build'}"
    if not _wants_gpu(config):
        return Finding("devices", "ok", text)
    if scheduler:
        if built is None:
            return Finding("devices", "error", f"{text}, so jobs on GPU nodes compute on CPUs", "make env DEVICE=cuda")
        return Finding("devices", "ok", f"{text}; Slurm gives jobs their GPUs")
    assert config is not None
    if config.transformers.device == "cuda":
        return Finding("devices", "error", f"{text}, and transformers.device is cuda", "stair doctor on a GPU machine")
    text = f"{text}; this run's models would compute on the CPU, far too slowly"
    return Finding("devices", "warning", text, "stair reproduce --run tiny, or use a machine with a GPU")


# ---------------------------------------------------------------- packages and attention


def _packages(root: Path) -> Iterator[Finding]:
    """The installed packages against the lock file of the environment."""
    device = "cuda" if _version("flash-linear-attention") else "cpu"
    lock, remedy = root / "envs" / f"{device}.lock", f"make env DEVICE={device}"
    if not lock.is_file():
        yield Finding("packages", "warning", f"there is no {lock} to compare the packages with", "git checkout envs")
        return
    lines = [line.rstrip(" \\") for line in lock.read_text("utf-8").splitlines() if line[:1].isalnum()]
    locked = [each for each in map(Requirement, lines) if each.marker is None or each.marker.evaluate()]
    found = {each.name: _version(each.name) for each in locked if each.name not in _KERNELS}
    wrong = [
        each
        for each in locked
        if each.name in found and not (found[each.name] and each.specifier.contains(found[each.name], prereleases=True))
    ]
    built = f" for CUDA {_torch_cuda()}" if _torch_cuda() else ", CPU build"
    if not wrong:
        text = f"{len(found)} packages have the versions of {lock.name}; torch {_version('torch')}{built}"
        yield Finding("packages", "ok", text)
        return
    named = ", ".join(f"{each.name} {found[each.name] or 'is missing'}" for each in wrong[:_NAMED])
    more = f" and {len(wrong) - _NAMED} more" if len(wrong) > _NAMED else ""
    text = f"{len(wrong)} of {len(found)} packages are not those of {lock.name}: {named}{more}"
    yield Finding("packages", "warning", text, remedy)


def _version(name: str) -> str:
    """An installed version, without a build suffix such as torch's +cpu; empty if the package is missing."""
    try:
        return metadata.version(name).partition("+")[0]
    except metadata.PackageNotFoundError:
        return ""


def _attention(config: Config) -> Iterator[Finding]:
    """The attention that the models compute with. Several only where their dtypes differ."""
    dtypes = {model.dtype for model in config.models.values()}
    for path in sorted({engine_identity(config, "transformers", dtype).attention for dtype in dtypes}):
        yield Finding("attention", "ok", f"{path} (transformers.attention: {config.transformers.attention})")


# ---------------------------------------------------------------- hub and disk


def _storage(config: Config, paths: RunPaths, run: str) -> Iterator[Finding]:
    """Findings on the hub and the disks. Makes no request if nothing is missing.

    Args:
        run: the argument of `stair reproduce --run`.
    """
    # A run that only measures random weights needs no source. Two entries can name the same files.
    needed = [] if config.only_measures else list(hub_sources(config, paths))
    by_mark: dict[Path, HubSource] = {}
    for source in needed:
        if source.commit() is None:
            by_mark.setdefault(source.mark, source)
    missing, size = list(by_mark.values()), 0
    if missing:
        findings, size = _hub(config, missing, run)
        yield from findings
    else:
        text = f"all {len(needed)} models and data sets are in {config.hub.cache}"
        yield Finding("hub", "ok", text if needed else "this run needs no download")
    yield from _disks(config, paths, size)


def _hub(config: Config, missing: list[HubSource], run: str) -> tuple[list[Finding], int]:
    """Findings on the hub, and the bytes to download."""
    names = ", ".join(source.name for source in missing)
    fetch = f"stair reproduce --run {run}{' --go' if config.expensive else ''} --target fetch"
    if not online():
        text = f"hub access is off in this shell (TRANSFORMERS_OFFLINE), and {names} must be fetched"
        return [Finding("hub", "error", text, "unset TRANSFORMERS_OFFLINE HF_HUB_OFFLINE")], 0
    from huggingface_hub import constants, get_token

    if fault := _unreachable(constants.ENDPOINT):
        text = f"{constants.ENDPOINT} does not answer ({fault}), and {names} must be fetched"
        return [Finding("hub", "error", text, f"{fetch}, on a machine with access to the hub")], 0
    lock, sizes, findings = read_lock(anchored(config.hub.lock)), list[int](), list[Finding]()
    for source in missing:
        try:
            sizes.append(missing_bytes(source, lock))
        except ValueError as error:
            remedy = "hf auth login, or: export HF_TOKEN=<token>" if "gated" in str(error) else fetch
            findings.append(Finding("hub", "error", str(error), remedy))
    if sizes:
        token = "with" if get_token() else "without"
        text = f"{bytes_text(sum(sizes))} of {len(sizes)} models and data sets to fetch"
        findings.insert(0, Finding("hub", "ok", f"{constants.ENDPOINT} answers, {token} a token; {text}"))
    return findings, sum(sizes)


def _unreachable(endpoint: str) -> str | None:
    """The fault of a request to the hub's address; None if it answers, whatever it answers."""
    try:
        urllib.request.urlopen(urllib.request.Request(endpoint, method="HEAD"), timeout=_HUB_SECONDS).close()
    except urllib.error.HTTPError:
        return None
    except OSError as error:
        return str(getattr(error, "reason", error))
    return None


def _disks(config: Config, paths: RunPaths, downloads: int) -> Iterator[Finding]:
    """Whether the folders can be written, and whether each disk has room for what the run still adds to it."""
    folders = {"results": paths.folder, "hub.cache": anchored(config.hub.cache)}
    needs = {"results": _outputs(config, paths)}
    if downloads:
        needs["hub.cache"] = {"downloads": downloads}
    disks: dict[int, list[str]] = {}
    for key in needs:
        existing = existing_folder(folders[key].absolute())
        if key == "hub.cache" and not os.access(existing, os.W_OK):
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
    logs = [log for stage in ("rollouts", "evaluation") for log in paths.work(stage).glob("**/log")]
    present = {
        "replayed states": sum(_bytes_in(paths.replay_states(model)) for model in config.models),
        "responses": sum(map(_bytes_in, [paths.folder / "rollouts", paths.folder / "responses", *logs])),
    }
    return {name: max(0, planned - present[name]) for name, planned in Planner(config, paths).disk_bytes().items()}


def _bytes_in(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


# ---------------------------------------------------------------- Slurm


def _slurm() -> Finding:
    """Whether Slurm accepts a job, which is not submitted."""
    if shutil.which("sbatch") is None:
        return Finding("slurm", "ok", "Slurm is not installed here; jobs run on this machine")
    code, _, fault = _output_of(["sbatch", "--test-only", "--time=1", "--wrap=true"])
    if code == 0:
        return Finding("slurm", "ok", "Slurm accepts jobs from here")
    remedy = "scontrol ping; sinfo; or name your account and partition in the profile (docs/cluster.md)"
    return Finding("slurm", "warning", f"sbatch --test-only: {_last_line(fault)}", remedy)
