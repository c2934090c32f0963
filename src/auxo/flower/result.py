"""What a run over cohorts gives back: Flower's result, and beside it every cohort's own."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field

from flwr.app import ArrayRecord, MetricRecord
from flwr.serverapp.strategy import Result, Strategy

from auxo.core.cohort_tree import CohortTree
from auxo.core.types import CohortId


@dataclass(repr=False)
class AuxoResult(Result):
    """A `Result` whose ``cohorts`` has one more for each cohort.

    The metrics have all cohorts' in one record for each round; where several cohorts had that round, names begin with
    the cohort's, as in ``cohort-0.1/eval_loss``.
    """

    cohorts: dict[str, Result] = field(default_factory=dict)  # the leaves
    history: dict[str, Result] = field(default_factory=dict)  # every cohort that ever trained, the leaves included
    tree: CohortTree = field(default_factory=CohortTree)
    strategies: dict[str, Strategy] = field(default_factory=dict)  # of the leaves, as they are at the end
    members: dict[str, tuple[int, ...]] = field(default_factory=dict)  # ids of the nodes in each leaf, as far as known
    largest: str = ""  # the leaf with most participants a round

    @property  # type: ignore[misc]  # in place of Flower's field, which whoever reads it is to be told about
    def arrays(self) -> ArrayRecord:
        """Return the model of the largest cohort; a warning says so where there are others, for which it is not."""
        if len(self.cohorts) > 1:
            warnings.warn(
                f"result.arrays is the model of cohort {self.largest} alone, and not for nodes of "
                f"{', '.join(name for name in self.cohorts if name != self.largest)}. Save each cohort's: "
                "result.cohorts[name].arrays for name in result.cohorts; result.members says which nodes it is for",
                RuntimeWarning,
                stacklevel=2,
            )
        return self._arrays

    @arrays.setter
    def arrays(self, arrays: ArrayRecord) -> None:
        self._arrays = arrays

    def cohort_of(self, node: int) -> str | None:
        """Return the cohort that a node is in; None: it has not said where it belongs, and compares models to find out.

        Args:
            node: its id, as `Grid.get_node_ids` has it.
        """
        return next((name for name, nodes in self.members.items() if node in nodes), None)

    def __repr__(self) -> str:
        """Return Flower's words, and the cohorts."""
        leaves = "\n".join(
            f"\t{name}: {max(result.train_metrics_clientapp, default=0)} rounds, "
            f"{len(self.members.get(name, ()))} nodes"
            for name, result in self.cohorts.items()
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is printed of the arrays is their size
            return f"{super().__repr__()}\nCohorts:\n{leaves}\n"


def collected(
    history: Mapping[str, Result],
    tree: CohortTree,
    largest: CohortId,
    strategies: Mapping[CohortId, Strategy],
    members: Mapping[CohortId, tuple[int, ...]],
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
        strategies={str(leaf): one for leaf, one in strategies.items()},
        members={str(leaf): nodes for leaf, nodes in members.items()},
        largest=str(largest),
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
