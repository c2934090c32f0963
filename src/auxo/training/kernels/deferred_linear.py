"""Linear layers on the raw inputs whose weights are deferred; `deferred` says how and why."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from auxo.training.kernels.deferred import Shrinkage, stretch_steps
from auxo.training.kernels.stacked_parameter import StackedParameter


@dataclass
class _Stretch:
    """What a layer needs while a stretch of steps lasts; rows are samples in the order of the steps."""

    base: Tensor  # (jobs, rows, out features) x W' with the weights at its start
    gradients: Tensor  # (jobs, rows, out features) by the outputs, filled step by step; zero where none come


@dataclass
class DeferredLinear:
    """The deferred layers of some participants while these train, those with most steps first."""

    layers: tuple[StackedParameter, ...]  # their weights, (out features, in features)
    weights: Tensor  # (parameters,) all start from
    updates: Sequence[Tensor]  # (parameters,) of each job, where the layers' updates go in the end
    steps: Sequence[int]  # (jobs,) descending
    batch: int
    rate: float
    proximal: float = 0.0
    _moved: dict[tuple[int, int], Tensor] = field(default_factory=dict)  # by layer and job: weights after a stretch
    _stretches: dict[int, _Stretch] = field(default_factory=dict)  # by layer
    _inputs: list[Tensor] = field(default_factory=list)  # of each job in the stretch, (rows, in features)
    _gram: Tensor = field(default_factory=lambda: torch.empty(0))  # (jobs, rows, rows) inner products of the inputs
    _shrinkage: Shrinkage | None = None  # with FedProx's term alone
    _first_step: int = 0
    _row: int = 0  # where the present step's rows begin

    def holds(self, offset: int) -> bool:
        """Return whether the layer whose weights begin at ``offset`` is one of these."""
        return any(layer.offset == offset for layer in self.layers)

    def begin(self, inputs: list[Tensor], step: int) -> None:
        """Start a stretch at ``step`` with the inputs of the jobs that are still at work, (rows, in features) each."""
        self._first_step, self._inputs = step, inputs
        jobs, rows = len(inputs), len(inputs[0])
        self._shrinkage = Shrinkage.of(self.rate, self.proximal, self.batch, rows) if self.proximal else None
        self._gram = torch.empty(jobs, rows, rows)
        for job, x in enumerate(inputs):
            gram = self._gram[job, : len(x), : len(x)]
            torch.mm(x, x.t(), out=gram)
            if self._shrinkage is not None:
                gram.mul_(torch.from_numpy(self._shrinkage.gram[: len(x), : len(x)]))
        self._stretches = {}
        for layer in self.layers:
            stretch = _Stretch(torch.empty(jobs, rows, layer.shape[0]), torch.zeros(jobs, rows, layer.shape[0]))
            for job, x in enumerate(inputs):
                self._set_base(layer, job, x, stretch.base[job, : len(x)])
            self._stretches[layer.offset] = stretch

    def _set_base(self, layer: StackedParameter, job: int, x: Tensor, base: Tensor) -> None:
        start, moved = layer.of(self.weights), self._moved.get((layer.offset, job))
        torch.mm(x, (start if moved is None else moved).t(), out=base)
        if self._shrinkage is not None and moved is not None:
            kept = torch.from_numpy(self._shrinkage.since_start[: len(x)]).unsqueeze(1)
            torch.lerp(torch.mm(x, start.t()), base, kept, out=base)

    def first_outputs(self, offset: int, job: int, rows: int) -> Tensor:
        """Return a layer's outputs without bias for a job's first rows of the stretch, at the weights all start from.

        In the first stretch of a job they are there already.
        """
        if (offset, job) not in self._moved:
            return self._stretches[offset].base[job, :rows]
        layer = next(one for one in self.layers if one.offset == offset)
        return torch.mm(self._inputs[job][:rows], layer.of(self.weights).t())

    def at(self, step: int) -> None:
        """Go on to a step of the present stretch."""
        self._row = (step - self._first_step) * self.batch

    def forward(self, offset: int, active: int) -> Tensor:
        """Return the layer's outputs without bias for the active jobs' batches, (active, batch, out features)."""
        stretch, row = self._stretches[offset], self._row
        here = slice(row, row + self.batch)
        base = stretch.base[:active, here]
        if row == 0:
            return base.clone()
        return torch.baddbmm(base, self._gram[:active, here, :row], stretch.gradients[:active, :row], alpha=-self.rate)

    def backward(self, offset: int, dy: Tensor) -> None:
        """Take note of the gradient by the layer's outputs, (active, batch, out features)."""
        self._stretches[offset].gradients[: len(dy), self._row : self._row + self.batch] = dy

    def end(self) -> None:
        """Move the weights by what the stretch has gathered; jobs that are done get their updates."""
        after = self._first_step + stretch_steps(self.batch)
        for layer in self.layers:
            gradients, start = self._stretches[layer.offset].gradients, layer.of(self.weights)
            for job, x in enumerate(self._inputs):
                dy, moved = gradients[job, : len(x)], self._moved.get((layer.offset, job))
                if self._shrinkage is not None:
                    dy = dy * torch.from_numpy(self._shrinkage.until_end[-len(x) :]).unsqueeze(1)
                    moved = None if moved is None else torch.lerp(start, moved, self._shrinkage.over(len(x)))
                dy, update = dy.t(), layer.of(self.updates[job])
                if self.steps[job] > after:
                    self._moved[layer.offset, job] = torch.addmm(
                        start if moved is None else moved, dy, x, alpha=-self.rate
                    )
                elif moved is None:
                    torch.addmm(update, dy, x, beta=0, alpha=-self.rate, out=update)
                else:
                    torch.sub(torch.addmm(moved, dy, x, alpha=-self.rate), start, out=update)
