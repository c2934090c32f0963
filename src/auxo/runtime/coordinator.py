"""The cohort coordinator: it holds the tree and the cohorts, matches requests to leaves, and alone acts on verdicts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from auxo.algorithms.auxo import (
    AuxoSettings,
    CohortState,
    Folded,
    Participants,
    Returned,
    RoundOutcome,
    rate_scale,
)
from auxo.core.affinity import FeedbackColumns, Requests
from auxo.core.cohort_tree import CohortTree
from auxo.core.partition import Outlook, Partition
from auxo.core.types import ROOT, BoolArray, CohortId, Float32Array, IntArray
from auxo.runtime.cohort_round import Closing, CohortRules, close_cohort

_CHECK_IN_MEMORY = 0.7  # weight of the past in the running mean of check-ins; our choice


@dataclass(frozen=True)
class CoordinatorState:
    """The server's whole state: soft as far as clients go, there is no row for any of them."""

    tree: CohortTree
    cohorts: Mapping[CohortId, CohortState]  # the leaves

    def share(self, cohort: CohortId, total: int) -> int:
        """Return the cohort's part of ``total`` participants: equal shares, the remainder in turn."""
        share, rest = divmod(total, len(self.tree.leaves))
        return share + (self.tree.leaves.index(cohort) < rest)


@dataclass(frozen=True)
class Matched:
    """Where each check-in goes."""

    leaf: IntArray  # position in tree.cohorts
    vouched: BoolArray  # by the client's own request, not by a draw


class Matching(Protocol):
    """Sends check-ins to leaves."""

    def match(self, tree: CohortTree, clients: IntArray, requests: Requests, rng: np.random.Generator) -> Matched:
        """Return a leaf for each row of ``requests``; ``clients`` are the rows' clients in the population."""
        ...

    def place(self, tree: CohortTree, clients: IntArray, requests: Requests, rng: np.random.Generator) -> Matched:
        """Return whose model each client is to use; ``vouched`` where it has reason to, beyond a draw or a guess."""
        ...


@dataclass(frozen=True)
class ByRequest:
    """The client has chosen; the coordinator finds the leaf its request of any age leads to."""

    def match(self, tree: CohortTree, clients: IntArray, requests: Requests, rng: np.random.Generator) -> Matched:
        """Return the leaves of the requests; a cohort the tree does not know counts as no preference."""
        cohorts = requests.cohort
        if requests.tree != tree:
            names = [tree.index.get(cohort, -1) for cohort in requests.tree.cohorts]
            cohorts = np.array([-1, *names, -1])[np.clip(cohorts, -1, len(names)) + 1]
        leaf, vouched = tree.resolve(cohorts, requests.cluster, requests.generation, rng)
        return Matched(leaf, vouched)

    def place(self, tree: CohortTree, clients: IntArray, requests: Requests, rng: np.random.Generator) -> Matched:
        """Return the same leaves; a request that only follows a predicted reward gives no reason to use a model."""
        matched = self.match(tree, clients, requests, rng)
        return Matched(matched.leaf, matched.vouched & requests.supported)


@dataclass(frozen=True)
class Coordinator:
    """The rules of one federation; `CoordinatorState` is what changes."""

    settings: AuxoSettings
    n_params: int
    total_participants: int
    total_rounds: int
    seed: int = 0
    overcommit: float = 0.0
    matching: Matching = ByRequest()

    def __post_init__(self) -> None:
        if self.total_participants < 1:
            raise ValueError(f"total_participants: expected at least 1, got {self.total_participants}")
        if self.total_rounds < 1:
            raise ValueError(f"total_rounds: expected at least 1, got {self.total_rounds}")

    def start(self, weights: Float32Array, partition: Partition | None = None) -> CoordinatorState:
        """Return the state before the first round: one cohort, or one for each child of ``partition``."""
        root = CohortState(server=self.settings.aggregator.initial(weights))
        state = CoordinatorState(CohortTree(), {ROOT: root})
        return state if partition is None else self._act(state, ROOT, partition)

    def match(
        self, state: CoordinatorState, clients: IntArray, requests: Requests, rng: np.random.Generator
    ) -> Matched:
        """Return the leaf of each check-in."""
        return self.matching.match(state.tree, clients, requests, rng)

    def note_check_ins(self, state: CoordinatorState, cohort: CohortId, count: int) -> CoordinatorState:
        """Return the state after ``count`` clients were on line for ``cohort`` at the start of a round."""
        mine = state.cohorts[cohort]
        memory = _CHECK_IN_MEMORY if mine.check_ins > 0 else 0.0
        seen = memory * mine.check_ins + (1 - memory) * count
        return replace(state, cohorts={**state.cohorts, cohort: replace(mine, check_ins=seen)})

    def wanted(self, state: CoordinatorState, cohort: CohortId) -> tuple[int, int]:
        """Return how many updates the cohort's round wants, and how many clients to select for them."""
        share = state.share(cohort, self.total_participants)
        return share, int(np.ceil(share * (1 + self.overcommit)))

    def progress(self, state: CoordinatorState, cohort: CohortId) -> float:
        """Return the share of the cohort's rounds that are done once the present one has closed."""
        return (state.cohorts[cohort].round + 1) / self.total_rounds

    def close(
        self, state: CoordinatorState, cohort: CohortId, participants: Participants, returned: Iterator[Returned]
    ) -> tuple[CoordinatorState, RoundOutcome, FeedbackColumns] | Folded:
        """Close a cohort's round here: aggregate, cluster, reward, decide, and act on the decision.

        Returns:
            The next state, the outcome and the feedback; when no update could be used, what came instead, and
            nothing has changed.
        """
        closing = self.closing(state, cohort, participants)
        closed = close_cohort(self.rules, closing, returned)
        return closed if isinstance(closed, Folded) else self.act(state, closing, closed)

    def closing(self, state: CoordinatorState, cohort: CohortId, participants: Participants) -> Closing:
        """Return what the cohort needs to close its round, wherever it does so."""
        mine = state.cohorts[cohort]
        share = state.share(cohort, self.total_participants)
        return Closing(
            cohort=cohort,
            state=mine,
            participants=participants,
            outlook=Outlook(
                progress=self.progress(state, cohort),
                total_participants=self.total_participants,
                cohorts=len(state.tree.leaves),
                check_ins=mine.check_ins,
            ),
            rate_scale=rate_scale(self.settings.rate_scaling, share, self.total_participants),
        )

    def act(
        self, state: CoordinatorState, closing: Closing, outcome: RoundOutcome
    ) -> tuple[CoordinatorState, RoundOutcome, FeedbackColumns]:
        """Return the state after a cohort's round, its decision carried out, and the feedback to its participants."""
        cohort = closing.cohort
        after = replace(state, cohorts={**state.cohorts, cohort: outcome.state})
        if isinstance(outcome.verdict.decision, Partition):
            after = self._act(after, cohort, outcome.verdict.decision)
        return after, outcome, outcome.feedback(cohort, after.tree, closing.participants)

    @cached_property
    def rules(self) -> CohortRules:
        """Return what all cohorts have in common."""
        return CohortRules(self.settings, self.n_params, self.seed)

    def _act(self, state: CoordinatorState, cohort: CohortId, partition: Partition) -> CoordinatorState:
        """Replace a cohort by its children; each starts from the parent's weights and optimiser state."""
        parent = state.cohorts[cohort]
        tree = state.tree.partition(cohort, partition.routes, partition.weights, parent.clustering.generation)
        children = tree.branches[-1].children
        cohorts = {name: kept for name, kept in state.cohorts.items() if name != cohort}
        for child, weight in zip(children, partition.weights, strict=True):
            cohorts[child] = CohortState(parent.server, parent.round, check_ins=parent.check_ins * weight)
        return CoordinatorState(tree, cohorts)
