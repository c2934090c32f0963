"""A run in a few numbers: each method's last evaluation, and what Auxo brought against the base and the oracle."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from auxo.core.metrics import first_reach, oracle_gain_share
from auxo.protocol.events import Evaluated, Event, Partitioned

Status = Literal["finished", "interrupted"]


@dataclass(frozen=True)
class MethodSummary:
    """Where a method ended; accuracies are fractions, variances of accuracies in per cent."""

    final_accuracy: float
    variance: float
    variance_beyond_binomial: float
    worst_10: float
    best_10: float
    time_s: float
    participations: int
    wasted_participations: int
    device_s: float
    wasted_device_s: float
    perplexity: float | None  # None where nobody asked for it

    @staticmethod
    def of(last: Evaluated) -> "MethodSummary":
        """Return the summary of a method whose last evaluation this was."""
        return MethodSummary(
            final_accuracy=last.accuracy,
            variance=last.variance,
            variance_beyond_binomial=last.variance_beyond_binomial,
            worst_10=last.worst_10,
            best_10=last.best_10,
            time_s=last.time_s,
            participations=last.participations,
            wasted_participations=last.wasted_participations,
            device_s=last.device_s,
            wasted_device_s=last.wasted_device_s,
            perplexity=last.perplexity,
        )


@dataclass(frozen=True)
class Summary:
    """What summary.json holds; None for a method that has not finished, and for what cannot be told without it."""

    population: str
    seed: int
    status: Status
    base: MethodSummary | None
    auxo: MethodSummary | None
    oracle: MethodSummary | None
    speedup: float | None  # time of the base to its best accuracy over that of Auxo to the same; None: never reached
    resource_speedup: float | None  # the same in participations
    cohorts: int | None  # leaves that Auxo has made so far
    ari: float | None  # agreement of Auxo's cohorts with the known groups
    oracle_gain_share: float | None


def summarise(
    population: str, seed: int, status: Status, events: Mapping[str, Sequence[Event]], finished: Collection[str]
) -> Summary:
    """Return the summary of the events recorded for each method, of which those in ``finished`` came to their end."""
    curves = {method: [event for event in told if isinstance(event, Evaluated)] for method, told in events.items()}
    ends = {method: MethodSummary.of(curves[method][-1]) for method in finished}
    base, auxo, oracle = ends.get("base"), ends.get("auxo"), ends.get("oracle")
    share = None
    if base and auxo and oracle:
        share = oracle_gain_share(base.final_accuracy, auxo.final_accuracy, oracle.final_accuracy)
    compared = (curves["base"] if base else [], curves.get("auxo", []))
    return Summary(
        population=population,
        seed=seed,
        status=status,
        base=base,
        auxo=auxo,
        oracle=oracle,
        speedup=speedup(*compared, lambda evaluated: evaluated.time_s),
        resource_speedup=speedup(*compared, lambda evaluated: evaluated.resource),
        cohorts=_leaves(events["auxo"]) if curves.get("auxo") else None,
        ari=curves["auxo"][-1].ari if curves.get("auxo") else None,
        oracle_gain_share=share,
    )


def speedup(
    base: Sequence[Evaluated], auxo: Sequence[Evaluated], progress: Callable[[Evaluated], float]
) -> float | None:
    """Return how much sooner on ``progress`` Auxo is as good as the base ever gets; None when it never is."""
    if not base or not auxo:
        return None
    target = max(evaluated.accuracy for evaluated in base)
    reached = [
        first_reach([progress(point) for point in curve], [point.accuracy for point in curve], target)
        for curve in (base, auxo)
    ]
    return reached[0] / reached[1] if reached[0] is not None and reached[1] else None


def _leaves(events: Sequence[Event]) -> int:
    return 1 + sum(len(event.children) - 1 for event in events if isinstance(event, Partitioned))
