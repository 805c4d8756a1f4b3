"""What plans, seals and resolves needs no torch: it would cost every job and the driver seconds and memory."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

MODULES = [
    "stair.config",
    "stair.pipeline.input_checks",
    "stair.pipeline.driven_run",
    "stair.pipeline.jobs",
    "stair.pipeline.inputs",
    "stair.pipeline.job_inputs",
    "stair.pipeline.status",
    "stair.pipeline.verify",
    "stair.sessions.run",
    "stair.sessions.backbone",
    "stair.stages.rollouts.stage",
    "stair.stages.evaluation.stage",
    "stair.stages.data.stage",
    "stair.stages.sessions.stage",
    "stair.stages.replay.design.crossed",
    "stair.stages.replay.design.printed_numbers",
    "stair.pipeline.plan",
    "stair.paper.make",
]


def loaded(code: str) -> set[str]:
    """Which heavy packages a fresh process holds after running `code`."""
    heavy = "{'torch', 'transformers', 'tokenizers', 'mpmath', 'pandas', 'pyarrow', 'matplotlib', 'snakemake'} & set(sys.modules)"
    command = [sys.executable, "-c", f"{code}\nimport sys\nprint(*sorted({heavy}))"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_no_torch_in_what_plans_and_seals() -> None:
    # One process: what one of them imported would show, whichever it was.
    found = loaded("\n".join(f"import {module}" for module in MODULES))
    assert "torch" not in found, [module for module in MODULES if "torch" in loaded(f"import {module}")]


def test_the_rules_need_no_heavy_package() -> None:
    """Each start reads them, and each job of a cluster. PyArrow is there for the checks of data sets before a start."""
    files = [ROOT / "Snakefile", *(ROOT / "workflow" / "rules").glob("*.smk")]
    imports = re.findall(
        r"^ *(?:from stair[\w.]* )?import .+$",
        "\n".join(file.read_text(encoding="utf-8") for file in files),
        re.MULTILINE,
    )
    ours = [line.strip() for line in imports if "stair" in line]
    assert "from stair.pipeline.inputs import RuleInputs" in ours and len(ours) > 8
    assert loaded("\n".join(ours)) == {"pyarrow", "snakemake"}


def test_a_job_is_opened_without_any_heavy_package() -> None:
    """Every command does so, to check and to record its inputs."""
    assert loaded("import stair.cli.main, stair.pipeline.job_inputs, stair.records.manifest") == set()


def test_the_configuration_is_resolved_without_any_heavy_package() -> None:
    assert (
        loaded(
            f"from pathlib import Path\nfrom stair.config import resolve\nresolve(Path({str(ROOT)!r}), {{'run': 'tiny'}})"
        )
        == set()
    )
