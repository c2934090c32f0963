"""What a run over cohorts gives back: Flower's result, and beside it every cohort's own."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from flwr.app import MetricRecord
from flwr.serverapp.strategy import Result, Strategy

from auxo.core.cohort_tree import CohortTree
from auxo.core.types import CohortId


@dataclass(repr=False)
class AuxoResult(Result):
    """A `Result` whose ``cohorts`` has one more for each cohort.

    ``arrays`` is the model of the largest cohort. The metrics have all cohorts' in one record for each round; where
    several cohorts had that round, names begin with the cohort's, as in ``cohort-0.1/eval_loss``.
    """

    cohorts: dict[str, Result] = field(default_factory=dict)  # the leaves
    history: dict[str, Result] = field(default_factory=dict)  # every cohort that ever trained, the leaves included
    tree: CohortTree = field(default_factory=CohortTree)
    strategies: dict[str, Strategy] = field(default_factory=dict)  # of the leaves, as they are at the end

    def __repr__(self) -> str:
        """Return Flower's words, and the cohorts."""
        leaves = "\n".join(
            f"\t{name}: {max(result.train_metrics_clientapp, default=0)} rounds"
            for name, result in self.cohorts.items()
        )
        return f"{super().__repr__()}\nCohorts:\n{leaves}\n"


def collected(
    history: Mapping[str, Result], tree: CohortTree, largest: CohortId, strategies: Mapping[str, Strategy]
) -> AuxoResult:
    """Return the result of a run in which these cohorts have trained."""
    leaves = {str(leaf): history[leaf] for leaf in tree.leaves if leaf in history}
    return AuxoResult(
        arrays=history[largest].arrays,
        train_metrics_clientapp=_together({name: one.train_metrics_clientapp for name, one in history.items()}),
        evaluate_metrics_clientapp=_together({name: one.evaluate_metrics_clientapp for name, one in history.items()}),
        evaluate_metrics_serverapp=_together({name: one.evaluate_metrics_serverapp for name, one in history.items()}),
        cohorts=leaves,
        history=dict(history),
        tree=tree,
        strategies=dict(strategies),
    )


def _together(metrics: Mapping[str, Mapping[int, MetricRecord]]) -> dict[int, MetricRecord]:
    rounds = sorted({number for one in metrics.values() for number in one})
    together = {}
    for number in rounds:
        there = {name: one[number] for name, one in metrics.items() if number in one}
        if len(there) == 1:
            (together[number],) = there.values()
        else:
            together[number] = MetricRecord(
                {f"cohort-{name}/{key}": value for name, record in there.items() for key, value in record.items()}
            )
    return together
