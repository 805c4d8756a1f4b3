"""What training changed on sessions that were measured before and after it, with an interval."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from stair.scoring.intervals import bootstrap_interval
from stair.training.loop import Measurement


def changes(before: Mapping[str, Measurement | None], after: Mapping[str, Measurement | None]) -> dict[str, Any]:
    """Means before and after, by what was measured, and the loss's change with its 95% interval.

    Sessions are the clusters: their differences are resampled.
    """
    found: dict[str, Any] = {}
    for name, first in before.items():
        last = after[name]
        if first is None or last is None:
            continue
        difference = np.asarray(last.loss) - np.asarray(first.loss)
        interval = bootstrap_interval(difference, limits=None)
        found[name] = {
            "before": first.means(),
            "after": last.means(),
            "change": {"loss": interval.estimate, "low": interval.low, "high": interval.high, "level": interval.level},
            "sessions": len(first.loss),
            "responses": first.responses,
        }
    return found


def change_lines(objective: Mapping[str, Any]) -> dict[str, str]:
    """A line of every measurement, for people."""
    lines = {}
    for name, one in objective.items():
        change = one["change"]
        lines[name] = (
            f"{one['before']['loss']:.4f} before, {one['after']['loss']:.4f} after; change {change['loss']:+.4f} "
            f"({change['level']:.0%} interval {change['low']:+.4f} to {change['high']:+.4f}, {one['sessions']} sessions)"
        )
    return lines
