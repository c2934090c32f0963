"""The Ray engine: participants train on trainer actors, and each cohort is an actor that closes its own rounds.

The driver holds all state and sends a cohort what its round needs; weights and updates travel between the cohort and
the trainers only. So whatever is lost, a trainer, a cohort or a whole node, costs a retry and not the run.
"""

import copy
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
from auxo.engines.ray_actors import LOST, TRIES, ActorRound, CohortActor, RayCrew, TrainerActor, get
from auxo.engines.ray_connection import ClusterError, check_object_store, connect, words_of
from auxo.engines.worker_processes import OnNote
from auxo.population.federated_data import FederatedData, Samples
from auxo.runtime.closing import Closed, Training
from auxo.runtime.failures import WorkersLost
from auxo.runtime.federation import Federation

_START_S = 60.0  # how long trainers may take to start for which there are free CPUs; our choice
_JOIN_S = 3.0  # how long to wait for the others, because Ray is slow to tell which CPUs are free; our choice


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
    _cohorts: dict[CohortId, Any] = field(default_factory=dict, init=False)  # actors
    _rules: Federation | None = field(default=None, init=False)  # of the federation that the cohorts belong to
    _stack: ExitStack = field(default_factory=ExitStack, init=False)

    def run_round(self, rules: Federation, closing: Closing, training: Training) -> Closed:
        """Return what `close_round` makes of the participants' updates, in the cohort's actor.

        Raises:
            WorkersLost: the cluster lost processes again and again; the message says what to do.
        """
        if self._crew is None:
            raise RuntimeError("the cluster is not running; use `with RayCluster(...) as engine:`")
        models = [ray.put(weights) for weights in training.models]
        training = replace(training, models=())
        for _ in range(TRIES):
            cohort = self._cohort(rules, closing.cohort, self._crew)
            try:
                run: ActorRound = get(cohort.run_round.remote(closing, training, models))
            except LOST as error:
                del self._cohorts[closing.cohort]
                if getattr(error, "actor_init_failed", False):
                    raise WorkersLost(
                        f"the Ray actor of cohort {closing.cohort} could not start: {words_of(error)}; install what is "
                        "missing on every node"
                    ) from None
                self.on_note(f"the Ray actor of cohort {closing.cohort} was lost; its round is run again")
                continue
            for trainer in run.losses:
                workers = len(self._crew.trainers)
                self.on_note(f"Ray worker {trainer + 1} of {workers} was lost; its participants train again")
            # What Ray hands out lies in its object store, and that does not outlive the cluster.
            closed = copy.deepcopy(run.closed)
            if closed.outcome is not None and isinstance(closed.outcome.decision, Partition):
                ray.kill(self._cohorts.pop(closing.cohort))
            return closed
        raise WorkersLost(
            f"the Ray actor of cohort {closing.cohort} was lost {TRIES} times in round {closing.states[0].round + 1}, "
            "most often for want of memory; run again on nodes that have more, or with a smaller model"
        )

    def _cohort(self, rules: Federation, cohort: CohortId, crew: RayCrew) -> Any:
        if rules is not self._rules:  # another federation: cohorts of the same names, but not the same cohorts
            self._end_cohorts()
            self._rules = rules
        if cohort not in self._cohorts:
            self._cohorts[cohort] = ray.remote(num_cpus=0)(CohortActor).remote(rules, crew)
        return self._cohorts[cohort]

    def __enter__(self) -> Self:
        """Connect to the cluster, or start it, and start the trainers.

        Raises:
            ClusterError: the cluster cannot be used; the message says why and what to do.
        """
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
        trainer = ray.remote(num_cpus=1, max_restarts=-1)(TrainerActor)
        self._crew = crew = RayCrew([trainer.remote() for _ in range(workers)], ray.put(engine))
        starting = [crew.when_back(number) for number in range(workers)]
        # Others may be using the cluster: those that wait for a CPU join in later.
        ready, others = ray.wait(starting, num_returns=min(workers, max(free, 1)), timeout=_START_S)
        if not ready:
            raise ClusterError(
                f"none of {workers} Ray workers has started within {_START_S:.0f} s: each needs a CPU, and the cluster "
                f"has {cpus} in all; wait until some are free, or use another cluster"
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
            ray.kill(cohort)
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
