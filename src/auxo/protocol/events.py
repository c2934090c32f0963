"""Events: what a run tells the world about itself, one JSON object a line, the only input of progress and report."""

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import get_args

from auxo.core.metric import ACCURACY, Metric


@dataclass(frozen=True)
class RoundClosed:
    """A cohort finished a round with at least one update used."""

    time_s: float  # simulated time at which the round closed
    cohort: str
    round: int  # 1-based, counted along the cohort's lineage from the root
    participants: int  # updates aggregated
    late: int  # trained, but after the round had closed (wasted)
    failed: int  # dropped out or returned a failure (wasted)
    rejected: int  # refused by validation, or too far beyond what is usual (wasted)
    duration_s: float
    known: int  # participants whose own record ranks this cohort first
    labelled: int  # participants that brought a cluster index from an earlier round
    judged: int  # participants by whom a partition could be judged in this round: on trial those who have judged
    gain: (
        float | None
    )  # of the best partition: on trial the share of their loss that judges gain; None: nothing to judge
    gain_needed: float  # what a printed criterion asks the gain to be; 0: the gain alone does not decide, as on trial
    heterogeneity: float  # mean squared distance of normalised updates to their mean
    children: int  # cohorts the best partition would make; 1 when none pays
    restarted: bool  # clustering threw its labels away in this round
    misfits: int  # in time and valid, but kept out: newcomers that do not fit the cohort (wasted)
    capped: int = 0  # of the updates aggregated: count for fewer examples than are claimed


@dataclass(frozen=True)
class EmptyRound:
    """A round came to nothing: nobody on line, or no usable update. The cohort tries again later."""

    time_s: float
    cohort: str
    round: int
    reason: str


@dataclass(frozen=True)
class Partitioned:
    """The coordinator replaced a cohort by children."""

    time_s: float
    cohort: str
    round: int
    children: tuple[str, ...]
    shares: tuple[int, ...]  # participants a round for each child
    gain: float | None  # None: the method knows no gain


@dataclass(frozen=True)
class StoppedLooking:
    """A cohort has found no groups worth a partition, and trains on as one."""

    time_s: float
    cohort: str
    round: int


@dataclass(frozen=True)
class UpdateRejected:
    """An update failed validation and took part in nothing, or was too far beyond what is usual to move a model."""

    time_s: float
    cohort: str
    round: int
    client: str
    reason: str


@dataclass(frozen=True)
class ClientBanned:
    """The guard has banned a client: it is refused until the ban is over, or lifted by hand."""

    time_s: float
    cohort: str  # in whose round the last evidence was
    round: int
    client: str
    reason: str
    evidence: str
    until: int  # the first round of the cohort that is farthest in which the ban is over


@dataclass(frozen=True)
class OwnerChanged:
    """A cohort of a live service has another process, which goes on from the last commit."""

    time_s: float
    cohort: str
    round: int  # rounds that were committed
    epoch: int  # of the new owner
    reason: str  # why the one before is none any more


@dataclass(frozen=True)
class Disturbance:
    """Something went wrong and was got over, such as a full disk or a damaged file."""

    time_s: float
    cohort: str  # "": of none in particular
    round: int
    reason: str


@dataclass(frozen=True)
class CohortEnded:
    """A cohort has trained all its rounds."""

    time_s: float
    cohort: str
    round: int


@dataclass(frozen=True)
class Measured:
    """What an app's own metrics say of a cohort after a round; a federation has no other evaluation."""

    time_s: float
    cohort: str
    round: int
    source: str  # who has measured: "training" or "evaluation" on clients, or the "server"
    names: tuple[str, ...]
    values: tuple[float, ...]  # finite; what is not, and lists, are left out


@dataclass(frozen=True)
class CohortMembers:
    """Who is in a cohort, by their own last requests; told after a partition and at the end of a federation."""

    time_s: float
    cohort: str
    round: int
    clients: tuple[str, ...]  # on Flower the ids of nodes; whom no request leads to a cohort is in none


@dataclass(frozen=True)
class CohortScore:
    """One cohort's part of an evaluation."""

    cohort: str
    clients: int
    accuracy: float


@dataclass(frozen=True)
class Evaluated:
    """Every client's test data scored with the model of the cohort it would use.

    That is the cohort its own request leads to. A client without a reason to want any (it never took part, or fitted
    nowhere so far) compares the cohorts' models on its own training samples; ``lost`` counts these. ``matched_...``
    are the same figures with them where they would be sent if they came to train: somewhere at random, unless the
    algorithm has them compare models then, too.
    """

    time_s: float
    round: float  # participations so far divided by the participants of a whole round
    participations: int  # updates aggregated so far
    wasted_participations: int
    device_s: float  # device-seconds spent on updates that were used
    wasted_device_s: float
    downloads: float  # models sent to participants so far, thin ones by their size, those of the wasted included
    accuracy: float  # mean over clients
    worst_10: float
    best_10: float
    variance: float  # across clients, accuracies in per cent
    variance_beyond_binomial: float  # the same without what small test sets explain
    cohorts: tuple[CohortScore, ...]
    ari: float | None  # None without known groups
    lost: int
    matched_accuracy: float
    matched_ari: float | None
    perplexity: float | None  # e to the clients' mean cross entropy; None: nobody asked, or a model has diverged
    # Device-seconds in which the clients that are evaluated have made their cohorts' models their own, for this once;
    # in nothing above.
    tuning_device_s: float
    metric: Metric = ACCURACY  # what is called accuracy above
    attackers: int = 0  # clients whom an attack that is simulated makes hostile: nothing above is told of them
    accuracy_of_all: float | None = None  # mean over these, too; None: nobody attacks

    @property
    def resource(self) -> int:
        """Return the participations spent, what was wasted included."""
        return self.participations + self.wasted_participations


Event = (
    RoundClosed
    | EmptyRound
    | Partitioned
    | StoppedLooking
    | UpdateRejected
    | ClientBanned
    | OwnerChanged
    | Disturbance
    | CohortEnded
    | Measured
    | CohortMembers
    | Evaluated
)

OnEvent = Callable[[str, Event], None]
"""Told what happens, with the run of the method that it happens to ("base", "auxo", "oracle 2")."""

_TYPES: Mapping[str, type[Event]] = {cls.__name__: cls for cls in get_args(Event)}


def to_json(event: Event) -> str:
    """Return the event as one line of JSON, its type under ``"type"``.

    Of an evaluation a metric that is the accuracy is left out, and what is said of attackers where there are none.
    """
    told = {"type": type(event).__name__, **dataclasses.asdict(event)}
    if isinstance(event, Evaluated) and event.metric == ACCURACY:
        del told["metric"]
    if isinstance(event, Evaluated) and not event.attackers:
        del told["attackers"], told["accuracy_of_all"]
    return json.dumps(told, allow_nan=False)


def from_json(line: str) -> Event:
    """Read back what `to_json` wrote.

    Raises:
        JSONDecodeError: the line is not JSON; half a line never is.
        ValueError: it is, but not an event of this version; the message names the field.
    """
    fields = json.loads(line)
    name = fields.pop("type", None) if isinstance(fields, dict) else None
    if not isinstance(name, str) or name not in _TYPES:
        raise ValueError(f"type: expected one of {', '.join(sorted(_TYPES))}, got {name!r}")
    try:
        return _reader(name)(json.dumps(fields))
    except ValueError as error:
        raise ValueError(f"event {name}: {error}") from None


@cache
def _reader(name: str) -> Callable[[str], Event]:
    # It brings pydantic, which takes long to import; a federated loop that only writes events should not wait.
    from auxo.files.typed_json import json_reader  # noqa: PLC0415

    return json_reader(_TYPES[name])
