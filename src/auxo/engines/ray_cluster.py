"""The Ray engine: participants train on trainer actors, and each cohort is an actor that closes its own rounds.

The driver holds all state and sends a cohort what its round needs; weights and updates travel between the cohort and
the trainers only. So whatever is lost, a trainer, a cohort or a whole node, costs a retry and not the run. What is
stopped or hangs counts as lost: cohorts look after trainers, and the driver after cohorts and Ray's own processes. A
cluster of our own is started again when it is lost.
"""

import copy
import time
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import ray
from ray import exceptions as ray_errors

from auxo.core.cohort_algorithm import Closing
from auxo.core.partition import Partition
from auxo.core.settings import PositiveInt, checked
from auxo.core.types import CohortId
from auxo.engines.in_process import InProcess
from auxo.engines.ray_actors import LOST, RETURN_S, TRIES, ActorRound, CohortActor, RayCrew, TrainerActor, get
from auxo.engines.ray_connection import ClusterError, check_object_store, connect, words_of
from auxo.engines.ray_pulse import HEALTH, START_S, Pulse, lost_part
from auxo.engines.worker_processes import OnNote
from auxo.population.federated_data import FederatedData, Samples
from auxo.runtime.closing import Closed, Training
from auxo.runtime.failures import WorkersLost
from auxo.runtime.federation import Federation
from auxo.runtime.patience import LOOK_S, Patience

_COMEBACK_S = 20  # how long to wait for the head node of somebody else's cluster to answer again; our choice
_BUSY_S = 60.0  # how long to wait for a CPU of a cluster where none is free; our choice
# Models that travel with the calls if they are no larger together, and else through the object store of this node: Ray
# ends a driver that is writing to that in the moment in which the raylet is lost. It takes a call's argument for small
# up to 100 KiB; our choice.
_WITH_CALL_BYTES = 2**16
_JOIN_S = 3.0  # how long to wait for the others, because Ray is slow to tell which CPUs are free; our choice


class _ClusterLost(Exception):  # noqa: N818 - it says what happened
    """A process of Ray's own is gone; the message is its name."""


@dataclass(frozen=True)
class _Cohort:
    actor: Any
    pulse: Pulse


@dataclass
@checked
class RayCluster:
    """Trains on ``workers`` trainer actors with one CPU each; use as a context manager.

    Args:
        inner: what to train, and whose bits this engine gives.
        workers: None for as many as the cluster has CPUs.
        address: of a running cluster, "host:port" or "auto". None for a cluster of its own, on this machine alone, that
            ends with the block; or for the one that this process is connected to already, which is left as it is.
        on_note: is told what was lost and is tried again.
        object_store_bytes: of a cluster of its own; None for as much as Ray takes.
    """

    inner: InProcess
    workers: PositiveInt | None = None
    address: str | None = None
    on_note: OnNote = field(default=lambda note: None)
    object_store_bytes: int | None = None
    _crew: RayCrew | None = field(default=None, init=False)
    _cohorts: dict[CohortId, _Cohort] = field(default_factory=dict, init=False)
    # A cohort waits for trainers that are lost, as long as it has to.
    _patience: Patience = field(default_factory=lambda: Patience(floor_s=2 * RETURN_S, start_s=START_S), init=False)
    _is_own: bool = field(default=False, init=False)  # the cluster
    _rules: Federation | None = field(default=None, init=False)  # of the federation that the cohorts belong to
    _stack: ExitStack = field(default_factory=ExitStack, init=False)

    def run_round(self, rules: Federation, closing: Closing, training: Training) -> Closed:
        """Return what `close_round` makes of the participants' updates, in the cohort's actor.

        Raises:
            WorkersLost: the cluster lost processes again and again; the message says what to do.
        """
        for _ in range(TRIES):
            if self._crew is None:
                raise RuntimeError("the cluster is not running; use `with RayCluster(...) as engine:`")
            try:
                return self._run_round(rules, closing, training, self._crew)
            except _ClusterLost as lost:
                self._begin_anew(str(lost))
        raise WorkersLost(
            f"processes of Ray itself were lost {TRIES} times in round {closing.states[0].round + 1} of cohort "
            f"{closing.cohort}; see that nothing ends them, most often the want of memory, and go on with `auxo resume`"
        )

    def _run_round(self, rules: Federation, closing: Closing, training: Training, crew: RayCrew) -> Closed:
        self._check_cluster()
        models: list[Any] = list(training.models)
        if sum(weights.nbytes for weights in training.models) > _WITH_CALL_BYTES:
            models = [ray.put(weights) for weights in training.models]
        jobs, training = len(training.jobs), replace(training, models=())
        for _ in range(TRIES):
            cohort = self._cohort(rules, closing.cohort, crew)
            try:
                run = self._round_of(cohort, cohort.actor.run_round.remote(closing, training, models), jobs)
            except LOST as error:
                del self._cohorts[closing.cohort]
                if getattr(error, "actor_init_failed", False):
                    raise WorkersLost(
                        f"the Ray actor of cohort {closing.cohort} could not start: {words_of(error)}; install what is "
                        "missing on every node"
                    ) from None
                self._check_cluster()
                self.on_note(f"the Ray actor of cohort {closing.cohort} was lost; its round is run again")
                continue
            for note in run.notes:
                self.on_note(note)
            # What Ray hands out lies in its object store, and that does not outlive the cluster.
            closed = copy.deepcopy(run.closed)
            if closed.outcome is not None and isinstance(closed.outcome.decision, Partition):
                ray.kill(self._cohorts.pop(closing.cohort).actor)
            return closed
        raise WorkersLost(
            f"the Ray actor of cohort {closing.cohort} was lost {TRIES} times in round {closing.states[0].round + 1}, "
            "most often for want of memory; run again on nodes that have more, or with a smaller model"
        )

    def _round_of(self, cohort: _Cohort, reference: Any, jobs: int) -> ActorRound:
        """Return what a cohort has made of its round, and look after it meanwhile."""
        cohort.pulse.begin()
        while not ray.wait([reference], timeout=LOOK_S)[0]:
            self._check_cluster()
            if cohort.pulse.why_lost(jobs) is not None:
                ray.kill(cohort.actor)
                raise ray_errors.RayActorError
        run: ActorRound = get(reference)
        cohort.pulse.finish(jobs)
        return run

    def _check_cluster(self) -> None:
        """Raise an error if Ray itself is lost: what is waited for would never come."""
        lost = lost_part()
        if lost is None:
            return
        if self._is_own:
            raise _ClusterLost(lost)
        for _ in range(_COMEBACK_S):  # a head node may be started again with what it knew
            if lost != "raylet" and lost_part() is None:
                return
            time.sleep(LOOK_S)
        raise WorkersLost(
            f"the Ray cluster is lost: its {lost} does not answer any more; start the cluster again (ray start), and "
            "go on with `auxo resume`, there or on another engine"
        )

    def _begin_anew(self, lost: str) -> None:
        """Start another cluster in the place of our own, which is lost."""
        self.on_note(f"Ray's {lost} was lost; a new cluster is started, and the round is run again")
        self._cohorts, self._crew = {}, None  # nobody could be told to end them
        try:
            self._stack.close()
            self.__enter__()
        except ClusterError as error:
            raise WorkersLost(f"{error}; then go on with `auxo resume`") from error

    def _cohort(self, rules: Federation, cohort: CohortId, crew: RayCrew) -> _Cohort:
        if rules is not self._rules:  # another federation: cohorts of the same names, but not the same cohorts
            self._end_cohorts()
            self._rules = rules
        if cohort not in self._cohorts:
            actor = ray.remote(num_cpus=0, concurrency_groups={HEALTH: 1})(CohortActor).remote(rules, crew)
            self._cohorts[cohort] = _Cohort(actor, Pulse(actor, self._patience))
        return self._cohorts[cohort]

    def __enter__(self) -> Self:
        """Connect to the cluster, or start it, and start the trainers.

        Raises:
            ClusterError: the cluster cannot be used; the message says why and what to do.
        """
        self._is_own = self.address is None and not ray.is_initialized()
        with ExitStack() as stack:
            stack.enter_context(connect(self.address, self.workers, self.object_store_bytes))
            stack.callback(self._end)
            self._start()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        """End all actors, and the cluster if it is this engine's own; what is in training is lost, nothing else."""
        self._stack.close()

    def _start(self) -> None:
        engine = replace(self.inner, data=_for_training(self.inner.data))
        check_object_store(_data_bytes(engine.data))
        cpus, free = (int(have.get("CPU", 0)) for have in (ray.cluster_resources(), ray.available_resources()))
        workers = self.workers or max(cpus, 1)
        trainer = ray.remote(num_cpus=1, max_restarts=-1, concurrency_groups={HEALTH: 1})(TrainerActor)
        self._crew = crew = RayCrew([trainer.remote() for _ in range(workers)], ray.put(engine))
        starting = [crew.when_back(number) for number in range(workers)]
        # Others may be using the cluster: those that wait for a CPU join in later.
        patience_s = START_S if free else _BUSY_S
        ready, others = _wait_for(starting, min(workers, max(free, 1)), patience_s)
        if not ready:
            raise ClusterError(
                f"none of {workers} Ray workers has started within {patience_s:.0f} s: each needs a CPU, and of the "
                f"cluster's {cpus} {free} were free; wait until some are, or use another cluster"
            )
        ready += ray.wait(others, num_returns=len(others), timeout=_JOIN_S)[0] if others else []
        try:
            ray.get(ready)
        except ray_errors.RayError as error:
            raise ClusterError(
                f"a Ray worker could not start: {words_of(error)}; install what is missing on every node"
            ) from error
        if len(ready) < workers:
            self.on_note(
                f"{len(ready)} of {workers} Ray workers have started; the others join in once there are CPUs for them"
            )

    def _end(self) -> None:
        self._end_cohorts()
        for trainer in self._crew.trainers if self._crew else ():
            ray.kill(trainer)
        self._crew, self._rules = None, None

    def _end_cohorts(self) -> None:
        for cohort in self._cohorts.values():
            ray.kill(cohort.actor)
        self._cohorts = {}


def _for_training(data: FederatedData) -> FederatedData:
    """Return the data without what no trainer reads: test samples, names and groups."""
    nothing = np.zeros(0, dtype=np.int64)
    train = Samples(*(np.asarray(column) for column in (data.train.x_rows, data.train.y, data.train.offsets)))
    return replace(
        data,
        x=np.asarray(data.x),  # what maps a file is only an array elsewhere
        train=train,
        test=Samples(nothing, nothing, np.zeros(data.n_clients + 1, dtype=np.int64)),
        client_names=("",) * data.n_clients,
        groups=None,
    )


def _data_bytes(data: FederatedData) -> int:
    return sum(column.nbytes for column in (data.x, data.train.x_rows, data.train.y, data.train.offsets))


def _wait_for(starting: list[Any], number: int, patience_s: float) -> tuple[list[Any], list[Any]]:
    """Return which actors have started and which not, once there are so many, or there is no more patience.

    Raises:
        ClusterError: Ray itself is lost meanwhile: what is waited for would never come.
    """
    deadline = time.monotonic() + patience_s
    while True:
        ready, others = ray.wait(starting, num_returns=number, timeout=LOOK_S)
        if len(ready) >= number or time.monotonic() > deadline:
            return ready, others
        if (lost := lost_part()) is not None:
            raise ClusterError(f"its {lost} was lost while its workers started; start the run again, or go on with it")
