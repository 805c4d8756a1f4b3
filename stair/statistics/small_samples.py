"""What resampling few clusters loses of an interval's width."""

import numpy as np
from scipy import stats


def spread_factor(clusters: int, level: float) -> float:
    """The factor by which percentiles of resampled numbers of n `clusters`, at least two, are moved away from their centre.

    sqrt(n / (n - 1)) of the deviation, times Student's quantile with n - 1 degrees of freedom over the normal one.
    """
    tail = (1.0 - level) / 2.0
    deviation = np.sqrt(clusters / (clusters - 1))
    return float(deviation * stats.t.ppf(1.0 - tail, clusters - 1) / stats.norm.ppf(1.0 - tail))
