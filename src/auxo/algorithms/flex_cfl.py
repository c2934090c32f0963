"""FlexCFL: groups are made once from what a sample of clients pre-trains, and newcomers join the nearest of them.

Duan et al., Flexible Clustered Federated Learning for Client-Level Data Distribution Shift, TPDS 2022 (arXiv
2108.09749); its grouping is FedGroup's (arXiv 2010.06870), Algorithms 1 and 2.

Cold start: a sample of clients trains the initial model for a few steps. Their updates are described by the cosines to
the first singular directions of all of them (decomposed cosine, EDC), and K-means makes the groups. A group's first
model is the mean of what its members have come to, and the mean of their updates is its direction, for good.
A newcomer: trains the initial model for as many steps when it is first selected, and belongs to the group whose
direction is nearest to its update. It then trains the group's model in the same round.
A round: federated averaging within each group; with ``group_rate`` groups' models are mixed a little.

The cold start is the first of the run's rounds here, and its updates are kept until it closes: ``sample`` x groups of
them. Migration when clients' data shift is left out: data do not shift here. Participants are drawn by the selector;
the authors' code goes through all clients once first. A client that never took part compares models to use one.
"""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from sklearn.cluster import KMeans

from auxo.core.aggregators import Aggregator, ServerState
from auxo.core.asking import MOST_STEPS, NEAREST, PreTraining
from auxo.core.cohort_algorithm import Closing, InitialModel, Opening, Outcome, Plan, RoundNotes, Start, stepped
from auxo.core.cohort_state import CohortState
from auxo.core.cohort_table import UNKNOWN, ByTable, CohortTable, with_members
from auxo.core.gathering import Admission, AdmitAll, AdmitNone, Gathered
from auxo.core.matching import Matching
from auxo.core.own_state import OwnState, own
from auxo.core.plain_cohorts import OneRoundForAll
from auxo.core.settings import Bounds, NonNegativeFloat, PositiveInt, checked, setting
from auxo.core.types import Float32Array, FloatArray, IntArray

_ITERATIONS = 20  # of K-means, as in the authors' code
_ROUNDING = 1e-12  # of the largest square; what is below is rounding of the arithmetic, and no direction
_STARTS = 10  # of K-means, as was scikit-learn's default then


@dataclass(frozen=True)
class Directions:
    """The initial model, and what each group's first members have moved it by; nothing before the cold start."""

    first: Float32Array  # (parameters,); empty in all groups but the first, which speaks for all
    groups: tuple[Float32Array, ...] = ()  # (parameters,) each

    def held_servers(self) -> tuple[ServerState, ...]:
        """Return that there are no more models to train for good."""
        return ()

    def held_models(self) -> tuple[Float32Array, ...]:
        """Return the model to pre-train, and the directions."""
        return (self.first, *self.groups) if len(self.first) else ()


@dataclass(frozen=True)
@checked
class FlexCfl(OneRoundForAll):
    """A fixed number of groups by pre-training, with one round for all of them."""

    groups: PositiveInt = setting(3, "Groups to make (m); the method has to be told. The authors have 3 or 5.")
    sample: PositiveInt = setting(20, "Clients for each group in the cold start (alpha); the default is the authors'.")
    steps: Annotated[int, Bounds(ge=1, le=MOST_STEPS)] = setting(
        50, "Steps of SGD in pre-training; the default is the authors'."
    )
    group_rate: NonNegativeFloat = setting(
        0.0, "How much of the other groups' models is mixed into a group's after a round (eta_G); 0: nothing."
    )

    own_states = (CohortTable, Directions)

    @property
    def matching(self) -> Matching:
        """Return that everybody joins the one round that is for all groups, and uses the model of its own."""
        return ByTable(at_the_root=True)

    def wants(self, state: CohortState, share: int) -> int:
        """Return that the cold start wants a sample of its own size."""
        return self.groups * self.sample if self._is_cold(state) else share

    def _is_cold(self, state: CohortState) -> bool:
        """Return whether groups have to be made; of one group there is nothing to be made."""
        return state.round == 0 and self.groups > 1

    def begin(self, initial: InitialModel) -> Start:
        """Return the initial model for each group, and a table of nobody."""
        return Start.in_equal_parts((initial(0),), self.groups, CohortTable.empty())

    def memory(self, parent: CohortState | None) -> OwnState:
        """Return the initial model, which newcomers pre-train; there are no directions yet."""
        return Directions(np.zeros(0, dtype=np.float32)) if parent is None else Directions(parent.server.weights)

    def plan(self, opening: Opening) -> Plan:
        """Return that all pre-train the initial model; once there are groups, that members train their group's."""
        leaves = opening.tree.leaves
        clients = opening.selected.clients
        # Who is too slow for the round has been assigned to a group all the same.
        plan = replace(Plan.plain(opening, leaves), hears_late=True)
        if self._is_cold(opening.state):
            return replace(plan, asks=replace(plan.asks, steps=self.steps))
        if self.groups == 1:
            return plan
        held = len(leaves)  # the first model that the cohort holds besides: the initial one
        references = tuple(held + 1 + number for number in range(self.groups))
        cohort = own(CohortTable, opening.table).of(clients)
        number = {opening.tree.index[leaf]: place for place, leaf in enumerate(leaves)}
        model = np.array([number.get(position, NEAREST) for position in cohort.tolist()], dtype=np.int64)
        first = PreTraining(self.steps, held, references)
        return replace(plan, asks=replace(plan.asks, model=model, pre_training=first))

    def admission(self, closing: Closing) -> Admission:
        """Return that every valid update moves its group's model; what is pre-trained moves none, and is kept."""
        return AdmitNone(keeps_updates=True) if self._is_cold(closing.states[0]) else AdmitAll()

    def close(
        self, closing: Closing, gathered: Gathered, aggregator: Aggregator, rng: np.random.Generator
    ) -> Outcome | None:
        """Make the groups, or move each group's model by the mean of its members."""
        if self._is_cold(closing.states[0]):
            return self._cold_start(closing, gathered, aggregator, rng)
        if not gathered.used:
            return None
        states = stepped(closing, gathered, aggregator)
        if self.group_rate > 0:
            states = mixed(states, self.group_rate)
        return Outcome(states, table=_assigned(closing, gathered.rows, gathered.model))

    def _cold_start(
        self, closing: Closing, gathered: Gathered, aggregator: Aggregator, rng: np.random.Generator
    ) -> Outcome | None:
        in_time = ~gathered.late
        if int(in_time.sum()) < self.groups or gathered.updates is None:
            return None
        updates = gathered.updates[in_time]
        found = group(updates, self.groups, int(rng.integers(2**31)))
        first = closing.states[0].server.weights
        means = tuple(_mean(updates[found == number]) for number in range(self.groups))
        states = tuple(
            replace(
                state,
                server=aggregator.initial((first + mean).astype(np.float32)),
                round=state.round + 1,
                memory=Directions(first, means) if place == 0 else Directions(first[:0]),
            )
            for place, (state, mean) in enumerate(zip(closing.states, means, strict=True))
        )
        table = _assigned(closing, gathered.rows[in_time], found)
        return Outcome(states, table=table, notes=RoundNotes(children=self.groups))


def _mean(updates: Float32Array) -> Float32Array:
    """Return the mean of updates; zero of none."""
    return np.asarray(updates.sum(axis=0, dtype=np.float64) / max(len(updates), 1), dtype=np.float32)


def _assigned(closing: Closing, rows: IntArray, groups: IntArray) -> CohortTable:
    """Return the table in which participants that were in none belong to these groups."""
    new = own(CohortTable, closing.table).of(closing.participants.clients[rows]) == UNKNOWN
    return with_members(closing, rows[new], groups[new])


def decomposed_cosines(updates: Float32Array | FloatArray, directions: int) -> FloatArray:
    """Return the cosines of updates to their first singular directions, (updates, directions): the features of EDC.

    What is decomposed is not centred, as in the authors' code. The sign of a direction is arbitrary.

    >>> np.abs(decomposed_cosines(np.array([[3.0, 0.0], [0.0, 1.0], [1.0, 0.0]]), 2)).round(3).tolist()
    [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]
    """
    values = updates.astype(np.float64)
    products = values @ values.T  # as many rows as updates, however large the model is
    squares, vectors = np.linalg.eigh(products)
    order = np.argsort(-squares, kind="stable")[:directions]
    is_real = squares[order] > _ROUNDING * squares.max()
    along = vectors[:, order] * np.sqrt(np.where(is_real, squares[order], 0.0))
    lengths = np.sqrt(np.diag(products))
    return np.asarray(along / np.where(lengths > 0, lengths, 1.0)[:, None])


def group(updates: Float32Array | FloatArray, groups: int, seed: int) -> IntArray:
    """Return the group of each update: K-means of their decomposed cosines."""
    if groups == 1:
        return np.zeros(len(updates), dtype=np.int64)
    features = decomposed_cosines(updates, groups)
    distinct = len(np.unique(features.round(6), axis=0))
    means = KMeans(min(groups, distinct), n_init=_STARTS, max_iter=_ITERATIONS, random_state=seed)
    return np.asarray(means.fit_predict(features), dtype=np.int64)


def mixed(states: tuple[CohortState, ...], rate: float) -> tuple[CohortState, ...]:
    """Return the groups with a little of each other's models, each scaled by its length (inter-group aggregation)."""
    models = np.stack([state.server.weights for state in states]).astype(np.float64)
    lengths = np.linalg.norm(models, axis=1)
    inverse = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    units = models * inverse[:, None]
    others, weights = units.sum(axis=0) - units, inverse.sum() - inverse
    after = (models + rate * others) / (1 + rate * weights)[:, None]
    return tuple(
        replace(state, server=replace(state.server, weights=row.astype(np.float32)))
        for state, row in zip(states, after, strict=True)
    )
