"""Linear layers on the raw inputs, trained by products that are large where those of a batch are small.

The inputs of such a layer are known before training begins. After steps 0..s-1 with inputs x_t and errors d_t (rows:
samples) its weights are ``W - rate * sum_t d_t' x_t``, so the outputs of step s are

    x_s W' - rate * sum_t (x_s x_t') d_t

The first term is one product for all steps, the second one of inner products among inputs, which are one product too,
with the errors so far, which are few. The weights themselves move once, by ``- rate * D' X``. What would be a pass over
the whole matrix for every batch becomes three products of matrices with as many rows as the participant has samples,
at the speed of large products and with nothing read twice. The sums are the same ones, taken in another order.

Long training is cut into stretches of steps, at whose ends the weights do move.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

_STRETCH_ROWS = 96  # rows of a stretch at most: more make the second term dear, fewer the products small; our choice


@dataclass(frozen=True)
class InputLayer:
    """Where the weights, (outputs, inputs), of a linear layer on the raw inputs lie in the flat weights."""

    first: int
    inputs: int
    outputs: int

    def of(self, flat: Tensor) -> Tensor:
        """Return the layer's matrix as a view of one participant's flat weights."""
        return flat[self.first : self.first + self.inputs * self.outputs].view(self.outputs, self.inputs)


@dataclass
class _Stretch:
    """What a layer needs while a stretch of steps lasts; rows are samples in the order of the visits."""

    base: Tensor  # (jobs, rows, outputs) x W' with the weights at its start
    errors: Tensor  # (jobs, rows, outputs) filled step by step; zero where none come


@dataclass
class DelayedInput:
    """The layers on the raw inputs of some participants while these train, those with most steps first."""

    layers: tuple[InputLayer, ...]
    weights: Tensor  # (parameters,) all start from
    updates: Sequence[Tensor]  # (parameters,) of each job, where the layers' updates go in the end
    steps: Sequence[int]  # (jobs,) descending
    batch: int
    rate: float
    _moved: dict[tuple[int, int], Tensor] = field(default_factory=dict)  # by layer and job: weights after a stretch
    _stretches: dict[int, _Stretch] = field(default_factory=dict)
    _inputs: list[Tensor] = field(default_factory=list)  # of each job in the stretch, (rows, inputs)
    _products: Tensor = field(default_factory=lambda: torch.empty(0))  # (jobs, rows, rows) inner products of inputs
    _first_step: int = 0
    _row: int = 0  # where the present step's rows begin

    @staticmethod
    def stretch_steps(batch: int) -> int:
        """Return the number of steps after which the weights must move."""
        return max(1, _STRETCH_ROWS // batch)

    def holds(self, first: int) -> bool:
        """Return whether the layer whose weights begin at ``first`` is one of these."""
        return any(layer.first == first for layer in self.layers)

    def begin(self, inputs: list[Tensor], step: int) -> None:
        """Start a stretch at ``step`` with the inputs of the jobs that are still at work, (rows, inputs) each."""
        self._first_step, self._inputs = step, inputs
        jobs, rows = len(inputs), len(inputs[0])
        self._products = torch.empty(jobs, rows, rows)
        for job, x in enumerate(inputs):
            torch.mm(x, x.t(), out=self._products[job, : len(x), : len(x)])
        self._stretches = {}
        for layer in self.layers:
            stretch = _Stretch(torch.empty(jobs, rows, layer.outputs), torch.zeros(jobs, rows, layer.outputs))
            for job, x in enumerate(inputs):
                weights = self._moved.get((layer.first, job), layer.of(self.weights))
                torch.mm(x, weights.t(), out=stretch.base[job, : len(x)])
            self._stretches[layer.first] = stretch

    def at(self, step: int) -> None:
        """Go on to a step of the present stretch."""
        self._row = (step - self._first_step) * self.batch

    def forward(self, first: int, active: int) -> Tensor:
        """Return the layer's outputs without bias for the active jobs' batches, (active, batch, outputs)."""
        stretch, row = self._stretches[first], self._row
        here = slice(row, row + self.batch)
        base = stretch.base[:active, here]
        if row == 0:
            return base.clone()
        return torch.baddbmm(base, self._products[:active, here, :row], stretch.errors[:active, :row], alpha=-self.rate)

    def backward(self, first: int, errors: Tensor) -> None:
        """Take note of the errors at the layer's outputs, (active, batch, outputs)."""
        self._stretches[first].errors[: len(errors), self._row : self._row + self.batch] = errors

    def end(self) -> None:
        """Move the weights by what the stretch has gathered; jobs that are done get their updates."""
        after = self._first_step + self.stretch_steps(self.batch)
        for layer in self.layers:
            errors = self._stretches[layer.first].errors
            for job, x in enumerate(self._inputs):
                by, start = errors[job, : len(x)].t(), layer.of(self.weights)
                moved, update = self._moved.get((layer.first, job)), layer.of(self.updates[job])
                if self.steps[job] > after:
                    self._moved[layer.first, job] = torch.addmm(
                        start if moved is None else moved, by, x, alpha=-self.rate
                    )
                elif moved is None:
                    torch.addmm(update, by, x, beta=0, alpha=-self.rate, out=update)
                else:
                    torch.sub(torch.addmm(moved, by, x, alpha=-self.rate), start, out=update)
