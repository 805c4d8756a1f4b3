"""The runtime stage: measures history after history, and writes the table of repetitions."""

from __future__ import annotations

import csv
from typing import Any

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.records.files import write_text
from stair.records.manifest import hardware
from stair.records.progress import Progress
from stair.records.text_tables import csv_table

COLUMNS = (
    "history", "row", "repetition", "entries", "bank_entries", "prompt_tokens", "controlled_tokens", "readout_norm", "tokens",
    "kv_bytes", "transfer_s", "prefill_s", "decode_s", "total_s", "peak_bytes", "shape", "device",
)  # fmt: skip
"""Seconds, bytes, entries and tokens of one repetition; empty where nothing was measured."""


def run(config: Config, paths: RunPaths, model: str) -> dict[str, Any]:
    """Measures a model and writes runtime/MODEL.csv; returns facts for the manifest.

    The rows of finished histories are kept in the work folder under the name of everything that decides them, and are not
    measured again.

    Raises:
        ValueError: an input cannot be read, or a reading measurement controlled nothing.
    """
    import torch

    from stair.models.device_and_dtype import resolved_device
    from stair.stages.runtime.measure import Measurer
    from stair.stages.runtime.study import open_study

    on_gpu = resolved_device(config.transformers.device) == "cuda"
    device = torch.cuda.get_device_name() if on_gpu else str(hardware()["processor"])
    study = open_study(config, paths, model)
    kept = paths.work("runtime", model) / f"{study.key(device)[:16]}.csv"
    rows: list[dict[str, Any]] = []
    if kept.is_file():
        with open(kept, encoding="utf-8", newline="") as handle:
            rows = [*csv.DictReader(handle)]
    finished = {row["history"] for row in rows}
    missing = [history for history in study.histories if history.name not in finished]
    progress = Progress(paths.progress, f"runtime/{model}", len(study.histories), "histories", len(finished))
    if missing:
        measurer = Measurer(*study.load(), study.method)
        progress.begin()
        for history in missing:
            rows += [{**row, "shape": study.shape, "device": device} for row in measurer.measure(history)]
            write_text(kept, _table(rows))
            progress.advance()
    write_text(paths.runtime(model), _table(rows))
    print(f"{model}: {len(study.histories)} histories on {device}")
    return {
        "engine": study.identity["engine"],
        "device": device,
        "shape": study.shape,
        "histories": [history.name for history in study.histories],
    }


def _table(rows: list[dict[str, Any]]) -> str:
    return csv_table(COLUMNS, ([row.get(name) for name in COLUMNS] for row in rows))
