"""How a module can be trained: participants side by side where that is right, one after another where it is not.

The choice depends on the module and on the first clients' data, never on how fast something happens to be: two
machines, and two runs on one, train in the same way and get the same bits.
"""

import copy
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from auxo.core.types import Float32Array, FloatArray, IntArray
from auxo.population.federated_data import FederatedData
from auxo.training.kernels import Stacking, Unstackable, build_stacked, find_stackings
from auxo.training.local_samples import PADDING, local_batches
from auxo.training.objective import CLASSIFICATION, Logits, Objective
from auxo.training.trainer import Batching, Job, LocalTraining
from auxo.training.vmap_training import VmapTraining

# What participants trained together may take up: about a core's share of the last cache. With LEAF's network four at
# once were 15 % faster than one and as fast as nine; measured.
_CACHE_BYTES = 24 * 2**20
_MOST_AT_ONCE = 64  # our choice: little more is gained
_VMAP_PARAMETERS = 1_000_000  # larger models gain nothing by it, one by one takes less memory; our choice
_CLOSE = 1e-4  # difference over the largest entry of an update: rounding gives 1e-6, anything wrong far more
_NUMBER_TRIED = 3  # clients
_MISMATCH = (
    "updates differ from those of training one by one by more than the last bits (dropout and statistics of a batch do "
    "that, and in deep networks rounding)"
)
_DEPENDENT = "the last bits of an update depend on who else trains"
_CAN_GO_WRONG = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError, UserWarning)


class TrainsTogether(Protocol):
    """Trains several participants at once."""

    def train(
        self,
        weights: Float32Array,
        data: FederatedData,
        batches: Sequence[IntArray],
        settings: LocalTraining,
        out: Float32Array,
        asked: IntArray | None = None,
    ) -> list[FloatArray]:
        """Write the updates of jobs with these batches to ``out``, (jobs, parameters).

        Returns, for each job, the losses of so many first samples as are ``asked`` for, at the weights it starts from,
        if training comes by them; else nothing.
        """
        ...

    def logits_at(self, weights: Float32Array) -> AbstractContextManager[Logits] | None:
        """Lend what makes logits of one participant's samples at these weights; None: the module is as fast."""
        ...


class TrainsAlone(Protocol):
    """Trains one participant, the way that all others are held against."""

    def __call__(self, data: FederatedData, batches: IntArray) -> Float32Array:
        """Return the update of a job with these batches."""
        ...


@dataclass(frozen=True)
class BatchingPlan:
    """How participants train together, once it has been chosen; a value, so that every process builds the same."""

    kind: Literal["stacked", "vmap", "one-by-one"] = "one-by-one"
    at_once: int = 1  # participants that train together
    stacking: Stacking = field(default_factory=Stacking)  # of "stacked"
    note: str | None = None  # why not a faster one, if there is something to say

    def build(self, module: nn.Module, objective: Objective = CLASSIFICATION) -> TrainsTogether | None:
        """Return what trains the module in this way; None for one by one.

        Raises:
            ValueError: the module is not the one for which the plan was made.
        """
        match self.kind:
            case "one-by-one":
                return None
            case "vmap":
                return VmapTraining(
                    copy.deepcopy(module), objective
                )  # what goes wrong in it must not stay in the module
            case "stacked":
                return build_stacked(module, self.stacking)


ONE_BY_ONE = BatchingPlan()


@dataclass(frozen=True)
class _Trial:
    """A few short jobs on real samples, and what becomes of them one by one."""

    module: nn.Module
    weights: Float32Array
    data: FederatedData
    batches: tuple[IntArray, ...]
    expected: Float32Array  # (jobs, parameters)
    objective: Objective

    def inputs(self) -> Tensor:
        """Return the inputs of the first batch, which is full if the first client has enough samples."""
        batch = self.batches[0][0]
        rows = self.data.train.x_rows[batch[batch != PADDING]]
        return torch.from_numpy(self.data.inputs(rows))

    def draws_random_numbers(self) -> bool:
        """Return whether the module asks torch for chance: together, participants would share what each has alone."""
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            before = torch.get_rng_state()
            self.module.train()
            self.module(self.inputs())
            return not torch.equal(before, torch.get_rng_state())

    def rejects(self, plan: BatchingPlan) -> str | None:
        """Return what speaks against a plan; None when it gives the same updates."""
        found = np.empty_like(self.expected)
        try:
            trains = plan.build(self.module, self.objective)
            assert trains is not None  # noqa: S101 - one by one is not tried against itself
            with warnings.catch_warnings():
                # What torch maps by a loop of its own is not worth mapping, and it says so.
                warnings.filterwarnings("error", message="There is a performance drop", category=UserWarning)
                # Twice, for a module may hold on to something that it meets again the second time.
                self._train(trains, plan.at_once, found)
                self._train(trains, plan.at_once, found)
        except _CAN_GO_WRONG as error:
            return (
                f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else 'no reason'}"
            )
        largest = np.abs(self.expected).max(axis=1)
        difference = np.abs(found - self.expected).max(axis=1)
        if not (difference <= _CLOSE * largest).all():
            return _MISMATCH
        alone = np.empty_like(found)
        self._train(trains, 1, alone)
        return None if alone.tobytes() == found.tobytes() else _DEPENDENT

    def _train(self, trains: TrainsTogether, at_once: int, out: Float32Array) -> None:
        for first in range(0, len(self.batches), at_once):
            some = slice(first, first + at_once)
            trains.train(self.weights, self.data, self.batches[some], LocalTraining(), out[some])


def choose_batching(
    module: nn.Module,
    weights: Float32Array,
    data: FederatedData,
    train_alone: TrainsAlone,
    batching: Batching,
    objective: Objective = CLASSIFICATION,
) -> BatchingPlan:
    """Return how to train the module on these data: the fastest way that gives the right updates.

    Plans are tried on a few steps of the first clients, with a batch that is not full among them.

    Raises:
        ValueError: the batching asked for does not work for this module.
    """
    batches = _tried_batches(data)
    if batching == "one-by-one" or not batches:
        return ONE_BY_ONE
    expected = np.stack([train_alone(data, of_job) for of_job in batches])
    trial = _Trial(module, weights, data, batches, expected, objective)
    reasons = []
    if trial.draws_random_numbers():
        reasons.append("it draws random numbers")
    if _has_hooks(module):
        reasons.append("it has hooks, which may do something only later")
    for plan in () if reasons else _candidates(trial, batching):
        if isinstance(plan, Unstackable):
            reasons.append(f"stacked: {plan.reason}")
            continue
        reason = trial.rejects(plan)
        if reason is None:
            return plan
        reasons.append(f"{plan.kind}: {reason}")
    if batching != "auto":
        raise ValueError(f'batching: "{batching}" does not work for this model ({"; ".join(reasons)}); use "auto"')
    said = "; ".join(dict.fromkeys(reasons))
    return BatchingPlan(note=f"participants train one by one, which is slower, as the model allows no more ({said})")


def _candidates(trial: _Trial, batching: Batching) -> list[BatchingPlan | Unstackable]:
    found: list[BatchingPlan | Unstackable] = []
    activations = _activations(trial)
    if batching in ("auto", "stacked") and not trial.objective.is_cross_entropy:
        found.append(Unstackable("its loss is not the cross entropy of classes, which stacked layers have by heart"))
    elif batching in ("auto", "stacked"):
        stackings = find_stackings(trial.module, trial.inputs())
        if isinstance(stackings, Unstackable):
            found.append(stackings)
        else:
            for stacking in stackings:
                # Deferred weights are not touched while they train.
                weights = len(trial.weights) - stacking.n_deferred(trial.module)
                found.append(BatchingPlan("stacked", _at_once(weights, activations), stacking))
    small = len(trial.weights) <= _VMAP_PARAMETERS
    if batching == "vmap" or (batching == "auto" and small):
        found.append(BatchingPlan("vmap", _at_once(len(trial.weights), activations)))
    return found


def _has_hooks(module: nn.Module) -> bool:
    """Return whether a layer or a parameter calls somebody: other ways may not, and a trial may not show it."""
    of_layers = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
    of_parameters = ("_backward_hooks", "_post_accumulate_grad_hooks")
    asked = [(layer, of_layers) for layer in module.modules()] + [(own, of_parameters) for own in module.parameters()]
    return any(getattr(owner, name, None) for owner, names in asked for name in names)


def _tried_batches(data: FederatedData) -> tuple[IntArray, ...]:
    """Return two steps of each of a few jobs; one batch is half empty, and one job has but one.

    They are those of the clients with most samples, for batches of one show little, and of one of them again if there
    are not enough of them, for a participant alone shows nothing.
    """
    batch_size, counts = LocalTraining().batch_size, data.train.counts()
    clients = [int(client) for client in np.argsort(-counts, kind="stable")[:_NUMBER_TRIED] if counts[client] > 0]
    if not clients:
        return ()
    jobs = [Job(clients[number % len(clients)], number) for number in range(_NUMBER_TRIED)]
    tried = []
    for number, all_batches in enumerate(local_batches(data, jobs, LocalTraining(), 0)):
        batches = all_batches[: 1 if number == 1 else 2].copy()
        if number == 0:
            batches[-1, batch_size // 2 :] = PADDING
        tried.append(batches)
    return tuple(tried)


def _activations(trial: _Trial) -> int:
    """Return how many numbers the module's layers return for a batch."""
    sizes = [0]

    def add(layer: nn.Module, given: tuple[Tensor, ...], made: object) -> None:
        if isinstance(made, Tensor):
            sizes.append(made.numel())

    leaves = [part for part in trial.module.modules() if not list(part.children())]
    hooks = [leaf.register_forward_hook(add) for leaf in leaves]
    try:
        with torch.no_grad():
            trial.module(trial.inputs())
    finally:
        for hook in hooks:
            hook.remove()
    return sum(sizes)


def _at_once(weights: int, activations: int) -> int:
    """Return how many participants with so many weights and activations fit into the cache."""
    numbers = weights + 2 * activations  # and their gradients
    return int(np.clip(_CACHE_BYTES // (4 * max(1, numbers)), 1, _MOST_AT_ONCE))
