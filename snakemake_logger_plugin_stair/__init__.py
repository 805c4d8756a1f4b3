"""Snakemake finds logger plugins by this package's name; the display itself is in `stair.pipeline.display`."""

from stair.pipeline.display import LogHandler

__all__ = ["LogHandler"]
