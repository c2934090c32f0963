"""Local training of several participants side by side, each with the weights it would have alone."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from auxo.core.types import Float32Array, FloatArray, IntArray
from auxo.population.federated_data import FederatedData
from auxo.training.kernels.convolution import ConvChain
from auxo.training.kernels.deferred import rows_in_stretch, stretch_steps
from auxo.training.kernels.deferred_linear import DeferredLinear
from auxo.training.kernels.linear_chain import LinearChain, logit_gradient
from auxo.training.kernels.match_sequential import Chain
from auxo.training.kernels.stacked_module import StackedModule
from auxo.training.kernels.stacked_parameter import StackedParameter
from auxo.training.objective import Logits
from auxo.training.stacked_batches import StackedBatches
from auxo.training.trainer import LocalTraining


class LayerUsedTwiceError(RuntimeError):
    """A stacked module cannot be trained that calls one of its layers more than once."""


@dataclass(frozen=True)
class StackedTraining:
    """Trains with a stacked module.

    Args:
        stacked: the module.
        deferred_layers: the weights of its linear layers that take the raw inputs as they are.
        chain: the whole module, if its layers' steps are taken by hand.
    """

    stacked: StackedModule
    deferred_layers: tuple[StackedParameter, ...] = ()
    chain: Chain | None = None

    def train(
        self,
        weights: Float32Array,
        data: FederatedData,
        batches: Sequence[IntArray],
        settings: LocalTraining,
        out: Float32Array,
        asked: IntArray | None = None,
    ) -> list[FloatArray]:
        """Write the updates of jobs to ``out``; losses are told where the products that they take are there anyway."""
        stack = StackedBatches.of(data, batches)
        start = torch.from_numpy(weights if weights.flags.writeable else weights.copy())
        updates = [torch.from_numpy(out[job]) for job in stack.job_rows]
        deferred = self._deferred(stack, start, updates, settings)
        sgd = self.stacked.sgd
        jobs = len(batches)
        at_every_step = [
            parameter for parameter in self.stacked.parameters if not (deferred and deferred.holds(parameter.offset))
        ]
        weights_of = {
            parameter.offset: parameter.of(start).repeat(jobs, *[1] * len(parameter.shape))
            for parameter in at_every_step
        }
        if self.chain is not None:
            self.chain.set_memory_format(weights_of)
        sgd.begin(weights_of, settings)
        sgd.deferred, sgd.batch = deferred, stack.y.shape[2]
        told = _Told(stack, np.zeros(jobs, dtype=np.int64) if asked is None else asked[stack.job_rows])
        try:
            self._descend(data, stack, deferred, told)
            for parameter in at_every_step:
                trained, before = sgd.weights[parameter.offset].flatten(1), start[parameter.columns]
                for row, update in enumerate(updates):
                    torch.sub(trained[row], before, out=update[parameter.columns])
        finally:
            sgd.end()
        out[stack.job_rows[stack.steps == 0]] = 0.0  # nobody has written there
        return told.losses()

    def logits_at(self, weights: Float32Array) -> AbstractContextManager[Logits] | None:
        """Lend what makes logits of one participant's samples at these weights; None: the module is as fast."""
        return self._logits_of(self.chain, weights) if isinstance(self.chain, ConvChain) else None

    @contextmanager
    def _logits_of(self, chain: ConvChain, weights: Float32Array) -> Iterator[Logits]:
        sgd = self.stacked.sgd
        start = torch.from_numpy(weights if weights.flags.writeable else weights.copy())
        weights_of = {one.offset: one.of(start).unsqueeze(0) for one in self.stacked.parameters}
        chain.set_memory_format(weights_of)
        sgd.begin(weights_of, LocalTraining())
        sgd.active = 1
        try:
            yield lambda x: chain.logits(sgd, x)
        finally:
            sgd.end()

    def _deferred(
        self, stack: StackedBatches, start: Tensor, updates: Sequence[Tensor], settings: LocalTraining
    ) -> DeferredLinear | None:
        # With momentum or decay the weights of a step are no longer the first ones plus a plain sum.
        if not self.deferred_layers or settings.momentum or settings.weight_decay:
            return None
        steps = [int(n) for n in stack.steps]
        rate, proximal = settings.learning_rate, settings.proximal
        return DeferredLinear(self.deferred_layers, start, updates, steps, stack.y.shape[2], rate, proximal)

    def _descend(
        self, data: FederatedData, stack: StackedBatches, deferred: DeferredLinear | None, told: "_Told"
    ) -> None:
        sgd = self.stacked.sgd
        features = data.features
        stretch = stretch_steps(stack.y.shape[2])
        # A deferred layer has all its inputs already; what is passed through the module only has their shape. Were it
        # used by anything else after all, that would show.
        shape_alone = torch.full((1,), torch.nan).expand(*features)
        labels, shares = torch.from_numpy(stack.y).flatten(1), torch.from_numpy(stack.shares).flatten(1)
        self.stacked.module.train()
        for step, active in enumerate(stack.active):
            sgd.active = active
            sgd.samples = tuple(np.count_nonzero(stack.shares[step, :active], axis=1).tolist())
            rows = stack.x_rows[step, :active].ravel()
            if deferred is None:
                x = torch.from_numpy(data.inputs(rows))
            else:
                if step % stretch == 0:
                    deferred.begin(_inputs_of(data, stack, step), step)
                    if isinstance(self.chain, LinearChain):
                        told.note(self.chain, deferred, step)
                deferred.at(step)
                x = shape_alone.expand(len(rows), *features)
            sgd.stepped.clear()
            self._step(x, labels[step, : len(rows)], shares[step, : len(rows)])
            sgd.descend_without_gradient(self.stacked.parameters)
            if deferred is not None and (step % stretch == stretch - 1 or step == len(stack.active) - 1):
                deferred.end()

    def _step(self, x: Tensor, labels: Tensor, shares: Tensor) -> None:
        sgd = self.stacked.sgd
        if self.chain is not None:
            self.chain.step(sgd, x, labels, shares)
            return
        sgd.calls.clear()
        logits = self.stacked.module(x)
        if len(set(sgd.calls)) < len(sgd.calls):
            # The first of two backward passes would move weights that the second still needs.
            raise LayerUsedTwiceError("the model uses a layer twice in one pass; set training.batching to one-by-one")
        with torch.no_grad():
            dy = logit_gradient(logits, labels, shares)
        logits.backward(dy)


class _Told:
    """Losses of jobs' first samples at the weights that all start from, as far as training comes by them."""

    def __init__(self, stack: StackedBatches, asked: IntArray) -> None:
        self._stack, self._asked = stack, asked
        self._found: list[list[FloatArray]] = [[] for _ in asked]

    def note(self, chain: LinearChain, deferred: DeferredLinear, step: int) -> None:
        """Take down what a stretch that has begun at ``step`` tells of samples that are asked about."""
        first, batch = chain.layers[0].weight.offset, self._stack.y.shape[2]
        if not deferred.holds(first):
            return
        rows_left = self._asked[: self._stack.active[step]] - step * batch
        logits_of = chain.logits_behind_first(deferred.weights)
        for job in np.flatnonzero(rows_left > 0).tolist():
            labels = self._stack.y[step : step + stretch_steps(batch), job].reshape(-1)[: rows_left[job]]
            logits = logits_of(deferred.first_outputs(first, job, len(labels)))
            losses = functional.cross_entropy(logits, torch.from_numpy(labels), reduction="none")
            self._found[job].append(losses.numpy().astype(np.float64))

    def losses(self) -> list[FloatArray]:
        """Return the losses of each job in the order in which jobs were given; none where they are not all there."""
        told = [np.zeros(0)] * len(self._found)
        for place, some, asked in zip(self._stack.job_rows.tolist(), self._found, self._asked.tolist(), strict=True):
            if sum(len(one) for one in some) == asked and asked:
                told[place] = np.concatenate(some)
        return told


def _inputs_of(data: FederatedData, stack: StackedBatches, first: int) -> list[Tensor]:
    """Return what each job still at work reads in the stretch that begins at step ``first``."""
    return [torch.from_numpy(data.inputs(rows)).flatten(1) for rows in rows_in_stretch(stack, first)]
