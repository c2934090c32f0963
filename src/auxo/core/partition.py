"""Decisions about a cohort, and what they depend on besides its participants. Who decides never acts (section 4.4)."""

from dataclasses import dataclass

from auxo.core.aggregators import ServerState


@dataclass(frozen=True)
class Keep:
    """Leave the cohort as it is."""


@dataclass(frozen=True)
class Partition:
    """Replace the cohort by children; cluster ``k`` goes to child ``routes[k]``."""

    routes: tuple[int, ...]
    weights: tuple[float, ...]  # believed share of the cohort's members in each child
    generation: int = 1  # start of the cohort's clustering that the clusters are numbered in
    servers: tuple[ServerState, ...] = ()  # that the children start from; none: all from the cohort's


Decision = Keep | Partition


@dataclass(frozen=True)
class Outlook:
    """How far the run has come, and the resources that cohorts share."""

    progress: float  # share of the cohort's rounds that are done
    total_participants: int  # the training resource: updates a round over all cohorts
    cohorts: int  # that share it now
    check_ins: float  # recent clients on line for this cohort at the start of a round
