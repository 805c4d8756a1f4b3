"""The tables of one frame of rows with the paper's own counts, as the comparison and the claims read them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from stair.config.model import Config
from stair.config.resolve import resolve
from stair.paper.claims import stage as claims
from stair.paper.claims.verdicts import Judged
from stair.paper.comparison import stage as comparison
from stair.paper.comparison.compared import Compared
from stair.paper.make import tables_from
from tests.statistics.paper_rows import write_rows

ROOT = Path(__file__).parents[2]
WITHOUT_AMC23 = {"select": {"benchmarks": ["math500", "aime2025", "gpqa_diamond"]}}
"""The change that takes a benchmark out of the paper's run."""


def paper_config() -> Config:
    """The paper's configuration."""
    return resolve(ROOT, {"run": "paper"})


def swapped(rows: pd.DataFrame, model: str) -> pd.DataFrame:
    """The rows with STAIR's and Native's of one model swapped."""
    moved = (rows["model"] == model) & rows["condition"].isin(["native", "stair"])
    other = rows["condition"].map({"native": "stair", "stair": "native"})
    return rows.assign(condition=rows["condition"].where(~moved, other))


@dataclass(frozen=True)
class Frame:
    """Rows on disk, and their tables."""

    folder: Path
    config: Config

    @classmethod
    def of(cls, folder: Path, evaluation: pd.DataFrame, shared: pd.DataFrame | None, config: Config) -> Frame:
        """Writes rows and their tables below a new folder."""
        write_rows(evaluation, folder / "evaluation")
        if shared is not None:
            write_rows(shared, folder / "shared_t1")
        tables_from(folder, folder / "out", config)
        return cls(folder, config)

    @property
    def files(self) -> tuple[list[Path], list[Path], list[Path]]:
        """Tables, rows of the evaluation, rows with a shared T1."""
        rows = [sorted((self.folder / name).glob("*/*/*.parquet")) for name in ("evaluation", "shared_t1")]
        return sorted((self.folder / "out").glob("*.csv")), rows[0], rows[1]

    def compared(self) -> list[Compared]:
        """Every printed value beside these tables."""
        return comparison.of_files(self.config, *self.files)

    def judged(self) -> list[Judged]:
        """Every claim on these rows."""
        return claims.of_files(self.config, *self.files)
