"""Algorithms with a table that says whose cohort each client belongs to; strangers compare the cohorts' models."""

from dataclasses import replace

import numpy as np

from auxo.core.aggregators import Aggregator
from auxo.core.cohort_algorithm import Closing, InitialModel, Opening, Outcome, Plan, RoundNotes, Start, stepped
from auxo.core.cohort_table import ByTable, CohortTable, newcomers_compare, with_newcomers
from auxo.core.cohort_tree import CohortTree
from auxo.core.gathering import Admission, AdmitAll, Gathered
from auxo.core.lost_clients import of_own_model
from auxo.core.matching import Matching
from auxo.core.partition import Partition
from auxo.core.plain_cohorts import PlainCohorts
from auxo.core.shares import member_shares
from auxo.core.types import CohortId, IntArray


class TableCohorts(PlainCohorts):
    """A cohort algorithm to begin another with, which has to say how clients come into the table."""

    own_states: tuple[type, ...] = (CohortTable,)

    @property
    def matching(self) -> Matching:
        """Return that the table decides."""
        return ByTable()

    def begin(self, initial: InitialModel) -> Start:
        """Return one model, and a table of nobody."""
        return Start((initial(0),), table=CohortTable.empty())

    def shares(self, tree: CohortTree, openers: tuple[CohortId, ...]) -> tuple[float, ...]:
        """Return each cohort's part of the clients: the same fraction of each takes part."""
        return member_shares(tree, openers)

    def plan(self, opening: Opening) -> Plan:
        """Return that all train the cohort's model on all their samples; strangers look which cohort fits them."""
        return newcomers_compare(opening, Plan.plain(opening))

    def admission(self, closing: Closing) -> Admission:
        """Return that every valid update counts, but those of strangers who belong elsewhere."""
        return of_own_model(closing, AdmitAll())

    def close(
        self, closing: Closing, gathered: Gathered, aggregator: Aggregator, rng: np.random.Generator
    ) -> Outcome | None:
        """Move the model, and note where strangers belong."""
        if not gathered.used:
            return None
        return Outcome(stepped(closing, gathered, aggregator), table=with_newcomers(closing, gathered))


def parted(closing: Closing, gathered: Gathered, rows: IntArray, clusters: IntArray) -> Outcome:
    """Return the outcome of a round that moves no model and makes a cohort of each cluster, if there are several.

    Args:
        closing: the round.
        gathered: its answers.
        rows: participants that were clustered.
        clusters: of each of them, numbered from 0 with none left out.
    """
    states = tuple(replace(state, round=state.round + 1) for state in closing.states)
    shares = np.bincount(clusters) / len(clusters)
    if len(shares) == 1:
        return Outcome(states)
    children = len(closing.tree.cohorts) + clusters  # they are made now
    return Outcome(
        states,
        Partition(tuple(range(len(shares))), tuple(shares.tolist())),
        table=with_newcomers(closing, gathered).assigned(closing.participants.clients[rows], children),
        notes=RoundNotes(children=len(shares)),
    )
