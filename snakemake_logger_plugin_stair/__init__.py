"""Snakemake finds logger plugins by this package's name; the display itself is in `stair.workflow.display`."""

from stair.workflow.display import LogHandler

__all__ = ["LogHandler"]
