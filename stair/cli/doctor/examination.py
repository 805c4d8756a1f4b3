"""The examination: every finding, in an order in which a user would act on them."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from stair.cli.doctor.attention_paths import attention_findings
from stair.cli.doctor.devices import device_findings
from stair.cli.doctor.finding import Finding
from stair.cli.doctor.hub_and_disk import storage_findings
from stair.cli.doctor.packages import package_findings
from stair.cli.doctor.slurm_client import controller_answers, slurm_findings
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
    yield from slurm_findings(root, sound)


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
