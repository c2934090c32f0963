"""The seam: what a cohort algorithm is, and what a round hands it. docs/architecture.md shows where each guest fits.

An algorithm is a frozen value with a few pure functions. It says who trains what, and what is learnt from the answers.
Selecting, training, summing up and the server's step are parts of their own and go with any of them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np

from auxo.core.affinity import AffinitySettings
from auxo.core.aggregators import Aggregator, ServerState
from auxo.core.asking import Ask, Asks
from auxo.core.cohort_state import CohortState, Credit
from auxo.core.cohort_tree import CohortTree
from auxo.core.concentration import beside
from auxo.core.gathering import Admission, Gathered
from auxo.core.matching import CheckIns, Matching
from auxo.core.own_state import NOTHING, OwnState
from auxo.core.partition import Decision, Keep, Outlook, Partition
from auxo.core.turnout import Times
from auxo.core.types import BoolArray, CohortId, Float32Array, FloatArray, IntArray

InitialModel = Callable[[int], Float32Array]
"""Draws initial weights: number 0 is the model that a run starts from, other numbers are other draws of it."""

EVERYBODY = -1
"""What a round wants (`Wants`) in place of a number: all clients of the cohort, whenever they can be had."""


@dataclass(frozen=True)
class ClientHalf:
    """What clients do besides training: they keep an affinity record, from which they ask for cohorts."""

    affinity: AffinitySettings
    clusters: int  # similarities in a client's record, for each cohort


@dataclass(frozen=True)
class Start:
    """What there is before the first round: one cohort, or a child of the root for each model."""

    models: tuple[Float32Array, ...]
    partition: Partition | None = None  # into as many children as models, or with one model for all of them
    table: OwnState = NOTHING  # of clients, for algorithms that need one

    @staticmethod
    def in_equal_parts(models: tuple[Float32Array, ...], cohorts: int, table: OwnState = NOTHING) -> "Start":
        """Return so many cohorts, with a model each or one for all; a single one is the root."""
        if cohorts == 1:
            return Start(models, table=table)
        return Start(models, Partition(tuple(range(cohorts)), (1 / cohorts,) * cohorts), table)


@dataclass(frozen=True)
class Opening:
    """A cohort that opens a round, and the clients that were selected for it."""

    cohort: CohortId
    tree: CohortTree
    state: CohortState  # of the cohort; where a round is for several leaves, of the first
    selected: CheckIns
    vouched: BoolArray  # (selected,) see `Matched`
    progress: float  # share of the cohort's rounds that are done once this one has closed
    share: int  # updates that the round wants
    table: OwnState = NOTHING  # of clients, for algorithms that have one
    secret: str = field(default="", repr=False)  # of the run, see `CoordinatorState`


@dataclass(frozen=True)
class Plan:
    """What the selected are asked to do, one row each, in the order in which their updates are gathered."""

    rows: IntArray  # in the selected check-ins
    offered: tuple[CohortId, ...]  # leaves whose models take part in the round; who names one is sent no other
    asks: Asks
    hears_late: bool = False  # those that finish too late for the round send their updates all the same
    notes: OwnState = NOTHING  # what the algorithm wants to find again when the round closes

    def check(self, selected: int, tree: CohortTree, held: int = 0) -> None:
        """Check that the plan can be carried out.

        Args:
            selected: clients that the plan is for.
            tree: as it stands.
            held: models that the cohort holds besides its own, see `HoldsModels`.

        Raises:
            ValueError: it cannot; what goes on would train something else than was meant.
        """
        n = len(self.rows)
        if len(np.unique(self.rows)) < n or (n and not 0 <= self.rows.min() <= self.rows.max() < selected):
            raise ValueError(f"plan.rows: expected distinct rows of the {selected} selected, got {self.rows.tolist()}")
        if not 0 < len(set(self.offered)) == len(self.offered) or not set(self.offered) <= set(tree.leaves):
            raise ValueError(f"plan.offered: expected some of the leaves {tree.leaves}, got {self.offered}")
        self.asks.check(n, len(self.offered), len(self.offered) + held)

    @staticmethod
    def plain(opening: Opening, offered: tuple[CohortId, ...] = ()) -> "Plan":
        """Return the plan of plain federated learning: all samples, in the order selected, and the first model.

        That is the cohort's own, unless others are offered.
        """
        n = len(opening.selected)
        return Plan(np.arange(n), offered or (opening.cohort,), Asks.plain(n))


@dataclass(frozen=True)
class Claimed:
    """What a round's participants have claimed when they checked in, one row each; forgotten when the round closes."""

    reward: FloatArray  # for this cohort; NaN: nothing was claimed
    unproved: BoolArray | None = None  # newcomers, and who has no proof of belonging here; None: nobody signs
    forged: BoolArray | None = None  # who came with what we have not signed; None: nobody signs


@dataclass(frozen=True)
class Participants:
    """A round's participants between its opening and its closing, in the order in which updates are gathered."""

    clients: IntArray
    offered: tuple[CohortId, ...]
    asks: Asks
    notes: OwnState = NOTHING
    claims: Claimed | None = None  # what they have said of themselves, for a guard; None: nobody wants to know
    thin: int = 0  # of the offered models, those of other cohorts, which travel as differences: `core.thin_models`

    def each(self, usual_epochs: int, rows: Iterable[int] | None = None) -> Iterator[Ask]:
        """Yield what each is asked, or each of some rows; ``usual_epochs`` are of those who do the usual work."""
        for row in range(len(self.clients)) if rows is None else rows:
            yield self.asks.of(row, len(self.offered), usual_epochs)


def leaves_of_round(cohort: CohortId, offered: tuple[CohortId, ...]) -> tuple[CohortId, ...]:
    """Return the leaves that a round is for: the cohort that opens it, or all that it opens it for."""
    return (cohort,) if cohort in offered else offered


@dataclass(frozen=True)
class Closing:
    """A round that closes: the cohorts that it is for, who took part, and how things stand for the federation.

    Of other cohorts it has nothing but the models that participants compare.
    """

    cohort: CohortId  # that opened it
    states: tuple[CohortState, ...]  # of `leaves`
    participants: Participants
    outlook: Outlook
    share: int  # updates that the round wants
    table: OwnState = NOTHING
    times: Times | None = None  # of the participants; None: nobody has looked at a clock
    tree: CohortTree = field(default_factory=CohortTree)  # as it stands; a partition's children come after its cohorts
    shelved: Mapping[CohortId, Float32Array] = field(
        default_factory=dict
    )  # of the others that are offered: their models as they travel
    secret: str = field(default="", repr=False)  # of the run, see `CoordinatorState`
    credits: Mapping[CohortId, Credit] = field(default_factory=dict)  # of its leaves
    most_unproved: float = 1.0  # share of a round of participants without a proof, see `auxo.core.concentration`
    averages: bool = False  # updates are averaged: those of another leaf's model can be credited to that one

    @cached_property
    def unproved(self) -> BoolArray | None:
        """Return who has no proof of belonging to this one of several cohorts; None: nobody signs, or there is one."""
        claims = self.participants.claims
        return None if claims is None or self.outlook.cohorts == 1 else claims.unproved

    @cached_property
    def leaves(self) -> tuple[CohortId, ...]:
        """Return the leaves that it is a round of; others' models were there to be compared, and stay as they are."""
        return leaves_of_round(self.cohort, self.participants.offered)

    @cached_property
    def models(self) -> tuple[Float32Array, ...]:
        """Return the models of ``participants.offered``."""
        mine = {leaf: state.server.weights for leaf, state in zip(self.leaves, self.states, strict=True)}
        return tuple(mine[leaf] if leaf in mine else self.shelved[leaf] for leaf in self.participants.offered)


@dataclass(frozen=True)
class Affinities:
    """What participants with a valid update are told, row aligned with ``gathered.rows``."""

    instant_reward: FloatArray  # NaN where rewards say nothing
    similarity: FloatArray  # (rows, clusters); NaN without clustering
    generation: int
    placed: IntArray | None = None  # (rows,) place in participants.offered of the model that fits best; -1: no word
    # (rows,) rewards that the guard alone hears of: on trial nobody is the worse for being of a group that is not found
    # yet, but what is claimed is held against what is seen. None: as participants hear them.
    observed: FloatArray | None = None


@dataclass(frozen=True)
class RoundNotes:
    """What a round tells the record about how the algorithm came to its decision."""

    known: int = 0  # participants in time whose own record ranks the cohort first
    labelled: int = 0  # participants that brought a cluster index from an earlier round
    judged: int = 0  # participants by whom a partition could be judged
    gain: float | None = None  # of the best partition, by the algorithm's own measure; None: there is nothing to judge
    gain_needed: float = 0.0  # that a printed criterion asks for; 0: the gain alone does not decide
    children: int = 1  # that the best partition would make
    restarted: bool = False  # labels were thrown away
    gives_up: bool = False  # the cohort stops looking for groups, for good or for a while


@dataclass(frozen=True)
class Outcome:
    """What a closed round leaves behind; the coordinator acts on the decision."""

    states: tuple[CohortState, ...]  # of `Closing.leaves`, after the round
    decision: Decision = field(default_factory=Keep)
    affinities: Affinities | None = None  # None: participants hear nothing
    table: OwnState | None = None  # None: as it was
    credits: Mapping[CohortId, Credit] = field(default_factory=dict)  # to other leaves whose models were trained
    notes: RoundNotes = field(default_factory=RoundNotes)


@runtime_checkable
class CohortAlgorithm(Protocol):
    """Who trains what, and what is learnt from it. Each function is pure; what it keeps is in the states it returns."""

    @property
    def matching(self) -> Matching:
        """Return how check-ins find their cohort."""
        ...

    @property
    def client_half(self) -> ClientHalf | None:
        """Return what clients keep and ask for; None: nothing."""
        ...

    @property
    def own_states(self) -> tuple[type, ...]:
        """Return the kinds of all states of its own, for the codec: memories, tables, a plan's notes."""
        ...

    def begin(self, initial: InitialModel) -> Start:
        """Return the models and cohorts before the first round."""
        ...

    def memory(self, parent: CohortState | None) -> OwnState:
        """Return what a new cohort remembers: the root (None), or a child of ``parent``."""
        ...

    def openers(self, tree: CohortTree) -> tuple[CohortId, ...]:
        """Return the cohorts that open rounds, which share the participants: the leaves, or one for several leaves."""
        ...

    def shares(self, tree: CohortTree, openers: tuple[CohortId, ...]) -> tuple[float, ...]:
        """Return the relative share of the participants that each opener has: positive; see `auxo.core.shares`."""
        ...

    def plan(self, opening: Opening) -> Plan:
        """Return what the selected are asked to do."""
        ...

    def admission(self, closing: Closing) -> Admission:
        """Return who decides, update by update, what moves a model."""
        ...

    def close(
        self, closing: Closing, gathered: Gathered, aggregator: Aggregator, rng: np.random.Generator
    ) -> Outcome | None:
        """Return what becomes of the cohorts; None: the round came to nothing, and nothing changes."""
        ...


@runtime_checkable
class HoldsModels(Protocol):
    """A cohort's memory that holds models besides the cohort's own, which take part in its rounds.

    In a round's numbers they follow the models of the leaves that are offered: first those that are trained, then those
    that are only compared.
    """

    def held_servers(self) -> tuple[ServerState, ...]:
        """Return the models that participants train, each with its optimiser's state."""
        ...

    def held_models(self) -> tuple[Float32Array, ...]:
        """Return the models that are only compared."""
        ...


def held_by(state: CohortState) -> tuple[tuple[ServerState, ...], tuple[Float32Array, ...]]:
    """Return the models that a cohort holds besides its own: trained ones, and others."""
    memory = state.memory
    return (memory.held_servers(), memory.held_models()) if isinstance(memory, HoldsModels) else ((), ())


@runtime_checkable
class NeedsGroups(Protocol):
    """A method that is told the true groups, which no rival may know: a reference."""

    def given(self, groups: IntArray) -> tuple[CohortAlgorithm, ...]:
        """Return what to run; of several the most accurate counts. ``groups`` are those of the whole population."""
        ...


@runtime_checkable
class Wants(Protocol):
    """An algorithm some of whose rounds want more or fewer updates than the cohort's share of the participants."""

    def wants(self, state: CohortState, share: int) -> int:
        """Return how many updates the cohort's next round wants, or `EVERYBODY`; most often the share."""
        ...


@runtime_checkable
class SeesUnits(Protocol):
    """An algorithm that may want fingerprints by unit of the model; others are given those of the update as one."""

    @property
    def by_unit(self) -> bool:
        """Return whether it wants them."""
        ...


@runtime_checkable
class SaysWhyNot(Protocol):
    """An algorithm that knows beforehand that it will partition nothing, and why."""

    def why_no_partition(self, participants: int, rounds: int) -> str | None:
        """Return why no cohort can be partitioned in a run of so many participants a round and rounds; None: one can.

        The words go on after "no partition is possible: ", and say what to change.
        """
        ...


@dataclass(frozen=True)
class Circumstances:
    """What a run has to offer to a method, as far as it is known before it starts."""

    clients: int  # in the population
    participants: int  # that a round wants, over all cohorts together
    rounds: int
    obstacles: tuple[str, ...] = ()  # settings that keep clients away from rounds, each as "key = value"

    @property
    def is_everybody_reachable(self) -> bool:
        """Return whether every client can take part in every round, and will finish it."""
        return not self.obstacles


@runtime_checkable
class Refuses(Protocol):
    """A method that cannot be run under all circumstances, and says so beforehand rather than being something else."""

    def why_not(self, circumstances: Circumstances) -> str | None:
        """Return why it cannot be run: what it needs, what there is, and what to change; None: it can be run."""
        ...


def why_refused(method: object, circumstances: Circumstances) -> str | None:
    """Return why a method, or an algorithm of it, cannot be run; None: it can, or it never refuses."""
    return method.why_not(circumstances) if isinstance(method, Refuses) else None


def stepped(
    closing: Closing, gathered: Gathered, aggregator: Aggregator, rate_scale: float = 1.0
) -> tuple[CohortState, ...]:
    """Return the cohorts of a round after their models have moved; one that nobody has trained keeps its model.

    What was credited to a cohort meanwhile counts like the round's own updates, where these are averaged, but for no
    more than all of these together, and it is no longer than an update usually is here: nobody has looked at it. Where
    claims are signed it counts for no more than what participants without a proof may have: most of it comes from
    these.
    """
    after = []
    most = min(1.0, beside(closing.most_unproved)) if closing.unproved is not None else 1.0
    movements = dict(zip(closing.participants.offered, gathered.movements, strict=False))  # others are held models'
    weights = dict(zip(closing.participants.offered, gathered.weights, strict=False))
    for leaf, state in zip(closing.leaves, closing.states, strict=True):
        movement, credit = movements[leaf], closing.credits.get(leaf)
        if credit is not None and movement is not None:
            credit = replace(credit, weight=min(credit.weight, most * weights[leaf]))
            credit = credit.no_longer_than_usual(state.usual)
            movement = credit.and_of(movement, weights[leaf]).movement
        server = state.server if movement is None else aggregator.step(state.server, movement, rate_scale)
        after.append(replace(state, server=server, round=state.round + 1))
    return tuple(after)
