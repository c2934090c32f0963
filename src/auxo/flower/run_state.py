"""A run as it stands: all that its parts share, and of which a checkpoint is made."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from flwr.app import ArrayRecord
from flwr.serverapp.strategy import Result

from auxo.core.affinity import AffinitySettings
from auxo.core.cohort_algorithm import held_by
from auxo.core.own_state import NOTHING
from auxo.core.types import CohortId
from auxo.flower.foreign_step import CohortSeen, StrategyEntry, StrategyNumber, StrategyTable
from auxo.flower.model_arrays import ModelArrays
from auxo.flower.post import Mailbox
from auxo.flower.wire import Letterhead
from auxo.runtime.server import Server


@dataclass
class RunState:
    """The server, the strategies of its models, and what nodes and cohorts have said so far."""

    server: Server
    table: StrategyTable
    model: ModelArrays
    affinity: AffinitySettings  # how clients weigh and explore cohorts
    mailbox: Mailbox = field(default_factory=Mailbox)
    history: dict[str, Result] = field(default_factory=dict)  # of every cohort that ever trained
    ended: set[CohortId] = field(default_factory=set)
    elapsed_s: float = 0.0  # before this process
    _began_s: float = field(default_factory=time.monotonic)

    @property
    def clock_s(self) -> float:
        """Return the seconds since the run began, earlier processes included."""
        return self.elapsed_s + time.monotonic() - self._began_s

    @property
    def head(self) -> Letterhead:
        """Return what all messages bear: of the federation that the server began, or has taken up."""
        return Letterhead.of(self.server.federation, self.affinity)

    def entry(self, name: CohortId) -> StrategyEntry:
        """Return the strategy that a model goes by, and its arrays."""
        return self.table.of(self.server.kept_beside(name))

    def entry_for(self, name: CohortId, participants: int) -> StrategyEntry:
        """Return the same, with a strategy that was made for a round of so many participants."""
        return self.table.made_for(self.server.kept_beside(name), CohortSeen(name, participants))

    def arrays(self, name: CohortId) -> ArrayRecord:
        """Return a model as the app knows it."""
        kept = self.server.kept_beside(name)
        if kept != NOTHING:
            return self.table.of(kept).arrays
        like = self.entry(CohortId(name.partition("~")[0])).arrays
        return self.model.record(self.server.weights(name), like)

    def result(self, cohort: CohortId) -> Result:
        """Return what has come of a cohort so far, to be added to."""
        return self.history.setdefault(cohort, Result())

    def members(self, there: Iterable[int] = ()) -> dict[CohortId, tuple[int, ...]]:
        """Return the nodes of each leaf; who is in none has not said where it belongs, or has last explored.

        Args:
            there: nodes that are on line: as long as there is one cohort they are in it, whatever they have said.
        """
        leaves, known = self.server.tree.leaves, self.mailbox.check_ins
        if len(leaves) == 1:
            return {leaves[0]: tuple(sorted({*known, *there}))}
        first_choices = [one for one in known.values() if one.request is not None and one.request.ranked_first]
        return {
            leaf: tuple(sorted(int(one.client) for one, is_led in zip(here, here.vouched, strict=True) if is_led))
            for leaf, here in self.server.match(first_choices, everybody=True).items()
        }

    def on_trial(self, cohort: CohortId) -> bool:
        """Return whether a partition of a cohort is on trial, in models of its own."""
        states = self.server.record.state.cohorts
        return cohort in states and bool(held_by(states[cohort])[0])

    def forget_unused(self) -> None:
        """Forget the strategies that no model of the server goes by."""
        states = self.server.record.state.cohorts.values()
        servers = [one for state in states for one in (state.server, *held_by(state)[0])]
        self.table.keep_only(one.own for one in servers if isinstance(one.own, StrategyNumber))
