"""FeSEM: K centres in the space of models; each client belongs to the centre that its trained model is nearest to.

Xie et al., Multi-Center Federated Learning, 2020 (arXiv 2005.01026; World Wide Web Journal 2023), Algorithm 1: a
participant trains its centre's model (from it, W_i). E step: it belongs to the centre nearest to W_i. M step: a centre
becomes the mean of its members' W_i. Clients are first dealt to centres by chance.

The paper's server holds a model of every client. Here a centre is the mean of the round's participants, as the
aggregator has it, and the table keeps each client's centre and no model. So everybody takes part in the first rounds,
as in the paper: who comes later is dealt to a centre by chance, and centres that are farther apart by then than one
training leads never let it go. Distances are between whole models, as in the
paper; the authors' code looks at one layer. A client that never took part compares models to use one.
"""

from dataclasses import dataclass, replace

import numpy as np

from auxo.core.aggregators import Aggregator
from auxo.core.cohort_algorithm import EVERYBODY, Closing, InitialModel, Opening, Outcome, Plan, Start, stepped
from auxo.core.cohort_state import CohortState
from auxo.core.cohort_table import UNKNOWN, ByTable, CohortTable, with_members
from auxo.core.gathering import Admission, AdmitAll, Belongs, Examined, Gathered
from auxo.core.matching import Matching
from auxo.core.own_state import own
from auxo.core.plain_cohorts import OneRoundForAll
from auxo.core.rng import numbers_of
from auxo.core.settings import NonNegativeInt, PositiveInt, checked, setting
from auxo.core.types import Float32Array


@dataclass(frozen=True)
@checked
class FeSem(OneRoundForAll):
    """Stochastic expectation maximisation over a fixed number of centres, with one round for all of them."""

    cohorts: PositiveInt = setting(4, "Centres (K); the method has to be told.")
    everybody: NonNegativeInt = setting(
        5, "First rounds, in which all clients take part, as they do in the paper in all rounds; our choice."
    )

    own_states = (CohortTable,)

    def wants(self, state: CohortState, share: int) -> int:
        """Return that everybody takes part until centres stand apart, and later as many train as ever."""
        return EVERYBODY if self.cohorts > 1 and state.round < self.everybody else share

    @property
    def matching(self) -> Matching:
        """Return that everybody joins the one round that is for all centres, and uses the model of its own."""
        return ByTable(at_the_root=True)

    def begin(self, initial: InitialModel) -> Start:
        """Return the same model for all centres: the first participants, who are dealt to them, set them apart."""
        return Start.in_equal_parts((initial(0),), self.cohorts, CohortTable.empty())

    def plan(self, opening: Opening) -> Plan:
        """Return that each trains the model of its centre, a newcomer of one that is drawn for it."""
        leaves, clients = opening.tree.leaves, opening.selected.clients
        plan = Plan.plain(opening, leaves)
        if self.cohorts == 1:
            return plan
        drawn = numbers_of(clients, "fesem", self.cohorts)
        known = own(CohortTable, opening.table).of(clients)
        first = opening.tree.index[leaves[0]]  # the leaves were made together, and follow each other
        model = np.where(known == UNKNOWN, drawn, known - first)
        return replace(plan, asks=replace(plan.asks, model=model))

    def admission(self, closing: Closing) -> Admission:
        """Return that an update moves the centre that its model is nearest to; the first round is as it was dealt."""
        if self.cohorts == 1 or closing.states[0].round == 0:
            return AdmitAll()
        return NearestCentre(tuple(state.server.weights for state in closing.states))

    def close(
        self, closing: Closing, gathered: Gathered, aggregator: Aggregator, rng: np.random.Generator
    ) -> Outcome | None:
        """Move each centre by the mean of its members, and note who they are."""
        if not gathered.used:
            return None
        states = stepped(closing, gathered, aggregator)
        if self.cohorts == 1 or gathered.placed is None:
            return Outcome(states)
        said = gathered.placed >= 0
        return Outcome(states, table=with_members(closing, gathered.rows[said], gathered.placed[said]))


@dataclass(frozen=True, eq=False)
class NearestCentre:
    """Each update moves the model that is nearest to what the participant has come to."""

    centres: tuple[Float32Array, ...]

    def place(self, row: int, examined: Examined, model: int) -> int | Belongs | None:
        """Return that model; its own where two are as near."""
        away = [examined.answer.update + (self.centres[model] - centre) for centre in self.centres]
        squares = [float(np.dot(one, one)) for one in away]
        nearest = int(np.argmin(squares))
        return model if squares[model] <= squares[nearest] else Belongs(nearest, away[nearest])
