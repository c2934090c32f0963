"""Local training of several participants side by side, each with the weights it would have alone."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from auxo.core.types import Float32Array, IntArray
from auxo.population.federated_data import FederatedData
from auxo.training.kernels.deferred_linear import DelayedInput, InputLayer
from auxo.training.kernels.linear_chain import output_errors
from auxo.training.kernels.match_sequential import Chain
from auxo.training.kernels.stacked_module import StackedModule
from auxo.training.stacked_batches import StackedBatches
from auxo.training.trainer import LocalTraining


class LayerUsedTwiceError(RuntimeError):
    """A stacked module cannot be trained that calls one of its layers more than once."""


@dataclass(frozen=True)
class StackedTraining:
    """Trains with a stacked module.

    Args:
        stacked: the module.
        input_layers: its linear layers that take the raw inputs as they are.
        chain: the whole module, if it is no more than a chain of layers.
    """

    stacked: StackedModule
    input_layers: tuple[InputLayer, ...] = ()
    chain: Chain | None = None

    def train(
        self,
        weights: Float32Array,
        data: FederatedData,
        batches: Sequence[IntArray],
        settings: LocalTraining,
        out: Float32Array,
    ) -> None:
        """Write the updates of jobs with these batches to ``out``, (jobs, parameters)."""
        stack = StackedBatches.of(data, batches)
        start = torch.from_numpy(weights if weights.flags.writeable else weights.copy())
        updates = [torch.from_numpy(out[job]) for job in stack.job_rows]
        delayed = self._delayed(stack, start, updates, settings)
        bench = self.stacked.bench
        jobs = len(batches)
        moved = [parameter for parameter in self.stacked.parameters if not (delayed and delayed.holds(parameter.first))]
        bench.weights = {
            parameter.first: start[parameter.columns].view(parameter.shape).repeat(jobs, *[1] * len(parameter.shape))
            for parameter in moved
        }
        if self.chain is not None:
            self.chain.lay_out(bench.weights)
        bench.velocities = {}
        if settings.momentum:
            bench.velocities = {first: torch.zeros_like(weight) for first, weight in bench.weights.items()}
        bench.settings, bench.delayed, bench.batch = settings, delayed, stack.y.shape[2]
        try:
            self._descend(data, stack, delayed)
            for parameter in moved:
                trained, before = bench.weights[parameter.first].flatten(1), start[parameter.columns]
                for row, update in enumerate(updates):
                    torch.sub(trained[row], before, out=update[parameter.columns])
        finally:
            bench.weights, bench.velocities, bench.delayed = {}, {}, None
        out[stack.job_rows[stack.steps == 0]] = 0.0  # nobody has written there

    def _delayed(
        self, stack: StackedBatches, start: Tensor, updates: Sequence[Tensor], settings: LocalTraining
    ) -> DelayedInput | None:
        # With momentum or decay the weights of a step are no longer the first ones plus a plain sum.
        if not self.input_layers or settings.momentum or settings.weight_decay:
            return None
        steps = [int(n) for n in stack.steps]
        return DelayedInput(self.input_layers, start, updates, steps, stack.y.shape[2], settings.learning_rate)

    def _descend(self, data: FederatedData, stack: StackedBatches, delayed: DelayedInput | None) -> None:
        bench = self.stacked.bench
        features = data.features
        stretch = DelayedInput.stretch_steps(stack.y.shape[2])
        # An input layer has all its inputs already; what is passed through the module only has their shape. Were it
        # used by anything else after all, that would show.
        shape_alone = torch.full((1,), torch.nan).expand(*features)
        labels, shares = torch.from_numpy(stack.y).flatten(1), torch.from_numpy(stack.shares).flatten(1)
        self.stacked.module.train()
        for step, active in enumerate(stack.active):
            bench.active = active
            bench.samples = tuple(np.count_nonzero(stack.shares[step, :active], axis=1).tolist())
            rows = stack.x_rows[step, :active].ravel()
            if delayed is None:
                x = torch.from_numpy(data.inputs(rows))
            else:
                if step % stretch == 0:
                    delayed.begin(_inputs_of(data, stack, step, step + stretch), step)
                delayed.at(step)
                x = shape_alone.expand(len(rows), *features)
            bench.moved.clear()
            self._step(x, labels[step, : len(rows)], shares[step, : len(rows)])
            bench.descend_without_gradient(self.stacked.parameters)
            if delayed is not None and (step % stretch == stretch - 1 or step == len(stack.active) - 1):
                delayed.end()

    def _step(self, x: Tensor, labels: Tensor, shares: Tensor) -> None:
        bench = self.stacked.bench
        if self.chain is not None:
            self.chain.step(bench, x, labels, shares)
            return
        bench.calls.clear()
        logits = self.stacked.module(x)
        if len(set(bench.calls)) < len(bench.calls):
            # The first of two backward passes would move weights that the second still needs.
            raise LayerUsedTwiceError("the model uses a layer twice in one pass; set training.batching to one-by-one")
        with torch.no_grad():
            errors = output_errors(logits, labels, shares)
        logits.backward(errors)


def _inputs_of(data: FederatedData, stack: StackedBatches, first: int, last: int) -> list[Tensor]:
    """Return what each job still at work reads in steps ``first`` to ``last``, one after another."""
    return [
        torch.from_numpy(data.inputs(stack.x_rows[first : min(last, stack.steps[job]), job].ravel())).flatten(1)
        for job in range(stack.active[first])
    ]
