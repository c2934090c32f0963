"""What figures below zero mean where nobody expects them."""

from collections.abc import Iterable

from auxo.core.metric import VARIANCE_EXPLAINED, Metric


def worse_than_the_mean(metric: Metric, scores: Iterable[float]) -> list[str]:
    """Return what scores below zero mean, in words; nothing where there are none, or a metric says it by itself."""
    if metric != VARIANCE_EXPLAINED or min(scores, default=0.0) >= 0:
        return []
    return ["variance explained below 0 %: predictions are further off than the mean of everybody's numbers"]


def not_beyond_chance(variances: Iterable[float]) -> list[str]:
    """Return what variances beyond small test sets mean that are below zero; nothing where there are none."""
    if min(variances, default=0.0) >= 0:
        return []
    return [
        "variance beyond small test sets below 0: clients differ less than the chance of so few test samples alone "
        "would make them; read it as 0"
    ]
