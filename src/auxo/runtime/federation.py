"""The rules of one federation: an algorithm, and the parts that go with any; all of it is fixed from start to end."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated

import numpy as np

from auxo.core.aggregators import Aggregator, KeepsOwn, asks_for_loss
from auxo.core.cohort_algorithm import EVERYBODY, CohortAlgorithm, SeesUnits, Wants
from auxo.core.cohort_state import CohortState, CoordinatorState
from auxo.core.cohort_tree import CohortTree
from auxo.core.concentration import MOST_UNPROVED
from auxo.core.fingerprint import Fingerprint
from auxo.core.guard import Guard, Unguarded
from auxo.core.layers import Layer, check_layers
from auxo.core.selectors import Selector, Uniform
from auxo.core.settings import Bounds, PositiveInt, checked
from auxo.core.shares import whole_shares
from auxo.core.types import CohortId
from auxo.core.usual_updates import MOST_WEIGHT


@dataclass(frozen=True)
@checked
class Federation:
    """What all cohorts of a federation have in common; `CoordinatorState` is what changes."""

    algorithm: CohortAlgorithm
    aggregator: Aggregator
    n_params: int
    total_participants: PositiveInt  # updates wanted in a round over all cohorts together
    total_rounds: PositiveInt  # that each cohort trains, counted from the root
    seed: int = 0
    overcommit: float = 0.0  # participants invited beyond those wanted, as a share
    selector: Selector = field(default_factory=Uniform)
    sketch_size: int = 4096  # of fingerprints
    layers: tuple[Layer, ...] = ()  # of the model, for algorithms that see units; none: fingerprints are plain
    by_unit: bool = True  # algorithms that see units are shown them
    epochs: PositiveInt = 1  # passes over a participant's samples; for selectors that ask some for more
    guard: Guard = field(default_factory=Unguarded)
    most_weight: Annotated[float, Bounds(gt=0, le=1)] = MOST_WEIGHT  # share of a round's that one participant may have
    signed: bool = False  # claims count where the server has signed what they say, see `auxo.core.proofs`
    most_unproved: Annotated[float, Bounds(gt=0, le=1)] = MOST_UNPROVED  # share of a round's, where claims are signed

    def __post_init__(self) -> None:
        if self.layers:
            check_layers(self.layers, self.n_params)
        names = [kind.__name__ for kind in dict.fromkeys(self.own_states)]
        if len(set(names)) < len(names):
            raise ValueError(f"own_states: expected kinds of different names, got {', '.join(names)}; rename one")

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """Return the sketch that belongs to this federation."""
        by_unit = self.by_unit and isinstance(self.algorithm, SeesUnits) and self.algorithm.by_unit
        return Fingerprint(self.n_params, self.sketch_size, self.seed, self.layers if by_unit else ())

    @property
    def own_states(self) -> tuple[type, ...]:
        """Return the kinds of states that its parts bring along, for the codec."""
        kept = self.aggregator.own_states if isinstance(self.aggregator, KeepsOwn) else ()
        return (*self.algorithm.own_states, *self.selector.own_states, *kept, *self.guard.own_states)

    @cached_property
    def asks_for_loss(self) -> bool:
        """Return whether participants are asked for the loss at the model they are sent."""
        return any(asks_for_loss(part) for part in (self.aggregator, self.selector))

    def openers(self, state: CoordinatorState) -> tuple[CohortId, ...]:
        """Return the cohorts that open rounds now."""
        return self.algorithm.openers(state.tree)

    def of(self, state: CoordinatorState, cohort: CohortId) -> CohortState:
        """Return the state of a cohort that opens rounds; of one that does so for its descendants, the first of these.

        Raises:
            KeyError: the cohort does not train now.
        """
        if cohort in state.cohorts:
            return state.cohorts[cohort]
        below = state.tree.leaves_of(cohort)
        if cohort not in self.openers(state) or not below:
            open_now = ", ".join(self.openers(state))
            raise KeyError(f"{cohort}: not a cohort that trains now; these do: {open_now}")
        return state.cohorts[below[0]]

    def share(self, state: CoordinatorState, cohort: CohortId) -> int:
        """Return the updates that the cohort's round wants: its share of the total as the algorithm sees it.

        Raises:
            ValueError: the algorithm does not give each opener a positive share.
        """
        return self._shares(state.tree)[cohort]

    def _shares(self, tree: CohortTree) -> dict[CohortId, int]:
        """Return the share of each opener; the last tree's are remembered: they are asked for many times a round."""
        known = self._remembered.get("shares")
        if known is not None and known[0] is tree:
            return known[1]
        openers = self.algorithm.openers(tree)
        shares = self.algorithm.shares(tree, openers)
        if len(shares) != len(openers):
            name = type(self.algorithm).__name__
            raise ValueError(f"{name}.shares: expected one for each of {', '.join(openers)}, got {len(shares)}")
        whole = dict(zip(openers, whole_shares(shares, self.total_participants), strict=True))
        self._remembered["shares"] = tree, whole
        return whole

    @cached_property
    def _remembered(self) -> dict[str, tuple[CohortTree, dict[CohortId, int]]]:
        return {}  # it follows from the tree alone: whether it is there makes no difference but time

    def wanted(self, state: CoordinatorState, cohort: CohortId) -> int:
        """Return the updates that complete the cohort's next round: its share, unless the algorithm wants others.

        `EVERYBODY`: those of all its clients.

        Raises:
            ValueError: the algorithm wants no update at all.
        """
        share = self.share(state, cohort)
        if not isinstance(self.algorithm, Wants):
            return share
        wants = self.algorithm.wants(self.of(state, cohort), share)
        if wants < 1 and wants != EVERYBODY:
            name = type(self.algorithm).__name__
            raise ValueError(f"{name}.wants: expected at least 1 update, or EVERYBODY, got {wants}")
        return wants

    def invited(self, state: CoordinatorState, cohort: CohortId) -> int:
        """Return how many clients to select for a cohort's round; `EVERYBODY`: all that it has."""
        wanted = self.wanted(state, cohort)
        return wanted if wanted == EVERYBODY else int(np.ceil(wanted * (1 + self.overcommit)))

    def progress(self, state: CoordinatorState, cohort: CohortId) -> float:
        """Return the share of the cohort's rounds that are done once the present one has closed."""
        return (self.of(state, cohort).round + 1) / self.total_rounds

    def is_done(self, state: CoordinatorState, cohort: CohortId) -> bool:
        """Return whether the cohort has trained all its rounds."""
        return self.of(state, cohort).round >= self.total_rounds
