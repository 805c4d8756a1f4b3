"""profiles/local-gpu: Snakemake runs jobs side by side, and each has a GPU of its own. Locks are real, CUDA is not asked."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
PROFILE = ROOT / "profiles" / "local-gpu"
GPUS = tuple(f"{number}-{os.getpid()}" for number in range(4))
"""Names that no other process of this machine uses."""

JOB = """
import json, os, sys, time
from pathlib import Path
from stair.records.gpus import own_gpus

with own_gpus(1) as (gpu,):
    begin = time.monotonic()  # one clock for all processes
    Path("started", sys.argv[1]).touch()
    while len(os.listdir("started")) < 4:  # so four jobs hold GPUs at the same time
        time.sleep(0.05)
    visible = os.environ["CUDA_VISIBLE_DEVICES"]
    end = time.monotonic()
Path(sys.argv[2]).write_text(json.dumps([gpu, visible, begin, end]))
"""
SNAKEFILE = """
rule all:
    input:
        expand("{number}.json", number=range(8)),

rule job:
    output:
        "{number}.json",
    resources:
        gpu=1,
    params:
        python=config["python"],
    shell:
        "exec {params.python} job.py {wildcards.number} {output}"
"""


def test_eight_jobs_on_four_gpus_never_share_one(tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "started").mkdir()
    command = [Path(sys.executable).with_name("snakemake"), "--profile", PROFILE, "--cores", "8"]
    shell = {**os.environ, "CUDA_VISIBLE_DEVICES": ",".join(GPUS)}
    done = subprocess.run(
        [*command, "--config", f"python={sys.executable}"],
        cwd=tmp_path, env=shell, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    jobs = [json.loads((tmp_path / f"{number}.json").read_text()) for number in range(8)]
    assert {gpu for gpu, *_ in jobs} == set(GPUS)
    assert all(gpu == visible for gpu, visible, *_ in jobs), "it sees no other"
    for (gpu, _, begin, end), (other, _, start, stop) in combinations(jobs, 2):
        assert gpu != other or end <= start or stop <= begin, "two jobs held one GPU at the same time"


def test_every_entry_is_explained() -> None:
    text = (PROFILE / "config.yaml").read_text()
    entries = yaml.safe_load(text)
    default = yaml.safe_load((ROOT / "profiles" / "default" / "config.yaml").read_text())
    assert not default.keys() & entries.keys(), "the settings of profiles/default would prevail"
    blocks = re.findall(r"^#.*\n(?:[a-z-]+:.*\n(?:  - .*\n)*)+", text, flags=re.M)
    assert sum(len(re.findall(r"^[a-z-]+:", block, flags=re.M)) for block in blocks) == len(entries)
