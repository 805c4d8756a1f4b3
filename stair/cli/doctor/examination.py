"""The examination: every finding, in an order in which a user would act on them."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from stair.cli.doctor.attention_paths import attention_findings
from stair.cli.doctor.devices import device_findings
from stair.cli.doctor.finding import Finding
from stair.cli.doctor.hub_and_disk import storage_findings
from stair.cli.doctor.packages import package_findings
from stair.cli.doctor.slurm_client import controller_answers, slurm_findings
from stair.cli.environment import met
from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.engines.choice import engine_choice
from stair.pipeline.input_checks import engines_to_run, input_faults


def examine(root: Path, config: Config | None, run: str | None) -> Iterator[Finding]:
    """All findings on this machine, and with a run those on its settings, models, downloads and disk.

    Args:
        config: the run; None for the machine alone.
        run: the argument of `stair reproduce --run`, if that is not the run's name.
    """
    yield from _shell_findings()
    faults = [] if config is None else list(dict.fromkeys(input_faults(config, RunPaths.of(config))))
    sound = None if faults else config  # a run's needs follow from settings without a fault
    yield from device_findings(sound, scheduler=controller_answers())
    yield from package_findings(root)
    if config is not None:
        paths, run = RunPaths.of(config), run or config.run
        remedy = f"mend it; then: stair config --run {shlex.quote(run)}"
        yield from (Finding("settings", "error", fault, remedy) for fault in faults)
        if sound is not None:
            yield from attention_findings(sound, paths)
            yield from _server_findings(sound, paths)
            yield from storage_findings(sound, paths, run)
    yield from slurm_findings(sound)


def _shell_findings() -> Iterator[Finding]:
    """Variables of the shell that `stair` replaces and plain `snakemake` does not, and signs that cannot be printed."""
    for each in met:
        text = f"{each.text}; stair and its jobs do without, plain snakemake does not"
        yield Finding("shell", "warning", text, each.remedy)
    encoding = sys.stdout.encoding or "utf-8"  # no file has it where a program reads the output
    if "–±×".encode(encoding, "replace").decode(encoding) != "–±×":
        text = f"{encoding}, the encoding of the output, lacks signs of the tables; a ? replaces them"
        yield Finding("shell", "warning", text, "export LC_ALL=C.UTF-8; unset PYTHONIOENCODING")


def _server_findings(config: Config, paths: RunPaths) -> Iterator[Finding]:
    """The environment of SGLang's server, if it must still generate responses."""
    if not any(config.engine_section(engine).is_server for engine in engines_to_run(config, paths)):
        return
    options = config.sglang
    try:
        engine_choice(config, "sglang").check_environment()
    except ValueError as error:
        yield Finding("sglang", "error", str(error), f"make sglang-env DEVICE={options.device}")
        return
    yield Finding(
        "sglang", "ok", f"SGLang {options.version} in {options.environment_folder}, attention {options.attention}"
    )


def counts(findings: list[Finding]) -> dict[str, int]:
    found = Counter(finding.level for finding in findings)
    return {level: found[level] for level in ("ok", "warning", "error")}
