"""How a module can be trained: participants side by side where that is right, one after another where it is not.

The choice depends on the module and on the first clients' data, never on how fast something happens to be: two
machines, and two runs on one, train in the same way and get the same bits.
"""

import copy
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from auxo.core.types import Float32Array, IntArray
from auxo.population.federated_data import FederatedData
from auxo.training.kernels.match_sequential import find_chain
from auxo.training.kernels.stacked_module import StackedModule, Unstackable, stack_module
from auxo.training.kernels.stacked_training import StackedTraining
from auxo.training.local_samples import PADDING, local_batches
from auxo.training.trainer import Batching, Job, LocalTraining
from auxo.training.vmap_training import VmapTraining

# What participants trained together may take up: about a core's share of the last cache. With LEAF's network four at
# once were 15 % faster than one and as fast as nine; measured.
_CACHE_BYTES = 24 * 2**20
_MOST_AT_ONCE = 64  # our choice: little more is gained
_VMAP_PARAMETERS = 1_000_000  # larger models gain nothing by it, one by one takes less memory; our choice
_FEWEST_INPUTS = 48  # of a layer whose weights are worth moving late; our choice
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
    ) -> None:
        """Write the updates of jobs with these batches to ``out``, (jobs, parameters)."""
        ...


class TrainsAlone(Protocol):
    """Trains one participant, the way that all others are held against."""

    def __call__(self, data: FederatedData, batches: IntArray) -> Float32Array:
        """Return the update of a job with these batches."""
        ...


@dataclass(frozen=True)
class WayToTrain:
    """A way that has been chosen; a value, so that every process builds the same."""

    kind: Literal["stacked", "vmap", "one-by-one"] = "one-by-one"
    at_once: int = 1  # participants that train together
    input_layers: tuple[str, ...] = ()  # stacked linear layers that take the raw inputs as they are
    is_chain: bool = False  # stacked: the module is a plain chain of layers, taken by hand
    note: str | None = None  # why not a faster one, if there is something to say

    def build(self, module: nn.Module) -> TrainsTogether | None:
        """Return what trains the module in this way; None for one by one.

        Raises:
            ValueError: the module is not the one for which the way was chosen.
        """
        match self.kind:
            case "one-by-one":
                return None
            case "vmap":
                return VmapTraining(copy.deepcopy(module))  # what goes wrong in it must not stay in the module
            case "stacked":
                stacked = stack_module(module)
                if isinstance(stacked, Unstackable):
                    raise ValueError(f"module: cannot be stacked: {stacked.reason}")
                layers = dict(stacked.linear)
                if not set(self.input_layers) <= set(layers):
                    raise ValueError(
                        f"module: expected linear layers {', '.join(self.input_layers)}, got {list(layers)}"
                    )
                chain = find_chain(module, stacked.module) if self.is_chain else None
                if self.is_chain and chain is None:
                    raise ValueError("module: expected a plain chain of layers, got one that does more")
                return StackedTraining(stacked, tuple(layers[name] for name in self.input_layers), chain)


ONE_BY_ONE = WayToTrain()


@dataclass(frozen=True)
class _Trial:
    """A few short jobs on real samples, and what becomes of them one by one."""

    module: nn.Module
    weights: Float32Array
    data: FederatedData
    batches: tuple[IntArray, ...]
    expected: Float32Array  # (jobs, parameters)

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

    def rejects(self, way: WayToTrain) -> str | None:
        """Return what speaks against a way; None when it gives the same updates."""
        found = np.empty_like(self.expected)
        try:
            trains = way.build(self.module)
            assert trains is not None  # noqa: S101 - one by one is not tried against itself
            with warnings.catch_warnings():
                # What torch maps by a loop of its own is not worth mapping, and it says so.
                warnings.filterwarnings("error", message="There is a performance drop", category=UserWarning)
                # Twice, for a module may hold on to something that it meets again the second time.
                self._train(trains, way.at_once, found)
                self._train(trains, way.at_once, found)
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


def choose_way(
    module: nn.Module, weights: Float32Array, data: FederatedData, train_alone: TrainsAlone, batching: Batching
) -> WayToTrain:
    """Return how to train the module on these data: the fastest way that gives the right updates.

    Ways are tried on a few steps of the first clients, with a batch that is not full among them.

    Raises:
        ValueError: the way asked for does not work for this module.
    """
    batches = _tried_batches(data)
    if batching == "one-by-one" or not batches:
        return ONE_BY_ONE
    expected = np.stack([train_alone(data, of_job) for of_job in batches])
    trial = _Trial(module, weights, data, batches, expected)
    reasons = []
    if trial.draws_random_numbers():
        reasons.append("it draws random numbers")
    if _has_hooks(module):
        reasons.append("it has hooks, which may do something only later")
    for way in () if reasons else _candidates(trial, batching):
        if isinstance(way, Unstackable):
            reasons.append(f"stacked: {way.reason}")
            continue
        reason = trial.rejects(way)
        if reason is None:
            return way
        reasons.append(f"{way.kind}: {reason}")
    if batching != "auto":
        raise ValueError(f'batching: "{batching}" does not work for this model ({"; ".join(reasons)}); use "auto"')
    said = "; ".join(dict.fromkeys(reasons))
    return WayToTrain(note=f"participants train one by one, which is slower, as the model allows no more ({said})")


def _candidates(trial: _Trial, batching: Batching) -> list[WayToTrain | Unstackable]:
    found: list[WayToTrain | Unstackable] = []
    if batching in ("auto", "stacked"):
        stacked = stack_module(trial.module)
        if isinstance(stacked, Unstackable):
            found.append(stacked)
        else:
            layers = _on_raw_inputs(stacked, trial)
            late = sum(layer.inputs * layer.outputs for name, layer in stacked.linear if name in layers)
            chain = find_chain(trial.module, stacked.module)
            is_chain = chain is not None and chain.is_worth_it(trial.data.features)
            fastest = WayToTrain("stacked", _at_once(trial, late), layers, is_chain)
            plain = WayToTrain("stacked", _at_once(trial, 0))
            found += dict.fromkeys([fastest, replace(fastest, is_chain=False), plain])
    small = len(trial.weights) <= _VMAP_PARAMETERS
    if batching == "vmap" or (batching == "auto" and small):
        found.append(WayToTrain("vmap", max(1, _at_once(trial, 0))))
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
    jobs = [Job(clients[number % len(clients)], number, None) for number in range(_NUMBER_TRIED)]
    tried = []
    for number, all_batches in enumerate(local_batches(data, jobs, LocalTraining(), 0)):
        batches = all_batches[: 1 if number == 1 else 2].copy()
        if number == 0:
            batches[-1, batch_size // 2 :] = PADDING
        tried.append(batches)
    return tuple(tried)


def _on_raw_inputs(stacked: StackedModule, trial: _Trial) -> tuple[str, ...]:
    """Return the names of the linear layers whose input is the module's own, at most reshaped."""
    x = trial.inputs()
    found: list[str] = []
    hooks = []

    def watch(name: str) -> None:
        def look(layer: nn.Module, given: tuple[Tensor, ...]) -> None:
            if not given or not isinstance(given[0], Tensor):
                return
            if given[0].data_ptr() == x.data_ptr() and given[0].shape[1:].numel() == x.shape[1:].numel():
                found.append(name)

        hooks.append(trial.module.get_submodule(name).register_forward_pre_hook(look))

    for name, layer in stacked.linear:
        if layer.inputs == x.shape[1:].numel() >= _FEWEST_INPUTS:
            watch(name)
    try:
        with torch.no_grad():
            trial.module(x)
    finally:
        for hook in hooks:
            hook.remove()
    return tuple(found)


def _at_once(trial: _Trial, late: int) -> int:
    """Return how many participants fit into the cache; ``late`` weights are not touched while they train."""
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
    numbers = len(trial.weights) - late + 2 * sum(sizes)  # activations and their gradients
    return int(np.clip(_CACHE_BYTES // (4 * max(1, numbers)), 1, _MOST_AT_ONCE))
