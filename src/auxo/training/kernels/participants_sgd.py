"""SGD of several participants side by side: their weights, and the steps that stacked layers take on them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from auxo.training.kernels.deferred_linear import DeferredLinear
from auxo.training.kernels.stacked_parameter import StackedParameter
from auxo.training.trainer import LocalTraining


@dataclass
class ParticipantsSgd:
    """The state of training that all stacked layers of a module share: an optimizer for many participants."""

    weights: dict[int, Tensor] = field(default_factory=dict)  # by StackedParameter.offset: (participants, *shape)
    velocities: dict[int, Tensor] = field(default_factory=dict)  # the same; empty without momentum
    # With FedProx's term, by offset: (*shape) what decay and the term together pull the weights towards.
    targets: dict[int, Tensor] = field(default_factory=dict)
    active: int = 0  # participants that take part in this step, a prefix
    samples: tuple[int, ...] = ()  # of each of them in this step; padding of a batch comes last and does not count
    batch: int = 0  # rows in each of their batches, padding included
    settings: LocalTraining = field(default_factory=LocalTraining)
    deferred: DeferredLinear | None = None
    # Weights do not require gradients, so something else must, or autograd would not come by at all.
    anchor: Tensor = field(default_factory=lambda: torch.zeros((), requires_grad=True))
    calls: list[int] = field(default_factory=list)  # weights used in this forward pass, by StackedParameter.offset
    stepped: set[int] = field(default_factory=set)  # weights that have taken this step, likewise

    def begin(self, weights: dict[int, Tensor], settings: LocalTraining) -> None:
        """Start training: all participants have the same weights, laid out as they are to stay."""
        self.weights, self.settings = weights, settings
        self.velocities = {}
        if settings.momentum:
            self.velocities = {offset: torch.zeros_like(weight) for offset, weight in weights.items()}
        self.targets = {}
        if settings.proximal:
            # decay * w + proximal * (w - start) = (decay + proximal) * (w - target)
            share = settings.proximal / (settings.weight_decay + settings.proximal)
            self.targets = {offset: weight[0] * share for offset, weight in weights.items()}

    def end(self) -> None:
        """Let go of what training took."""
        self.weights, self.velocities, self.targets, self.deferred = {}, {}, {}, None

    def weight(self, parameter: StackedParameter) -> Tensor:
        """Return the active participants' weights, (active, *shape), as a view."""
        return self.weights[parameter.offset][: self.active]

    def unpadded(self, rows: int) -> tuple[int, ...]:
        """Return how many of each active participant's rows are no padding, if a row is a sample; else all are."""
        return self.samples if rows == self.batch else (rows,) * self.active

    def linear(self, weight: StackedParameter, bias: StackedParameter | None, x: Tensor) -> Tensor:
        """Return a linear layer's outputs for ``x``, (active, batch, in features); a deferred one does not read it."""
        own_bias = None if bias is None else self.weight(bias).unsqueeze(1)
        if self.deferred is not None and self.deferred.holds(weight.offset):
            y = self.deferred.forward(weight.offset, self.active)
            return y if own_bias is None else y.add_(own_bias)
        matrices = self.weight(weight).transpose(1, 2)
        return torch.bmm(x, matrices) if own_bias is None else torch.baddbmm(own_bias, x, matrices)

    def descend_linear(self, weight: StackedParameter, bias: StackedParameter | None, x: Tensor, dy: Tensor) -> None:
        """Take a linear layer's step, by the gradient by its outputs; a deferred one takes note of it."""
        if self.deferred is not None and self.deferred.holds(weight.offset):
            self.deferred.backward(weight.offset, dy)
        else:
            self.descend_by_product(weight, dy.transpose(1, 2), x)
        if bias is not None:
            self.descend(bias, dy.sum(dim=1))

    def descend_by_product(self, parameter: StackedParameter, left: Tensor, right: Tensor) -> None:
        """Take a step along the gradient ``left @ right``, one product for each active participant."""
        weight, settings = self.weight(parameter), self.settings
        self.stepped.add(parameter.offset)
        if not self.velocities:
            kept = 1 - settings.learning_rate * settings.weight_decay
            if settings.proximal:
                self._pull(weight, parameter.offset)
                kept = 1.0
            weight.baddbmm_(left, right, beta=kept, alpha=-settings.learning_rate)
            return
        velocity = self.velocities[parameter.offset][: self.active]
        velocity.baddbmm_(left, right, beta=settings.momentum)
        self._add_pull(velocity, weight, parameter.offset)
        weight.sub_(velocity, alpha=settings.learning_rate)

    def descend(self, parameter: StackedParameter, gradient: Tensor, row: int | None = None) -> None:
        """Take a step along a gradient of the active participants, or of the one in ``row``."""
        rows = slice(self.active) if row is None else row
        weight, settings = self.weights[parameter.offset][rows], self.settings
        self.stepped.add(parameter.offset)
        if not self.velocities:
            if settings.proximal:
                self._pull(weight, parameter.offset)
            elif settings.weight_decay:
                weight.mul_(1 - settings.learning_rate * settings.weight_decay)
            weight.sub_(gradient, alpha=settings.learning_rate)
            return
        velocity = self.velocities[parameter.offset][rows]
        velocity.mul_(settings.momentum).add_(gradient)
        self._add_pull(velocity, weight, parameter.offset)
        weight.sub_(velocity, alpha=settings.learning_rate)

    def descend_without_gradient(self, parameters: Sequence[StackedParameter]) -> None:
        """Let decay, momentum and FedProx's term move the weights that no gradient has reached in this step."""
        if not (self.settings.weight_decay or self.settings.momentum or self.settings.proximal):
            return
        for parameter in parameters:
            if parameter.offset in self.weights and parameter.offset not in self.stepped:
                self.descend(parameter, torch.zeros_like(self.weight(parameter)))

    def _pull(self, weight: Tensor, offset: int) -> None:
        """Take the part of a step that decay and FedProx's term ask for; weights at their target do not move at all."""
        settings = self.settings
        weight.lerp_(self.targets[offset], settings.learning_rate * (settings.weight_decay + settings.proximal))

    def _add_pull(self, velocity: Tensor, weight: Tensor, offset: int) -> None:
        """Add what decay and FedProx's term add to the gradient."""
        rate = self.settings.weight_decay + self.settings.proximal
        velocity.add_(weight, alpha=rate)
        if self.settings.proximal:
            velocity.sub_(self.targets[offset], alpha=rate)


def by_participant(x: Tensor, sgd: ParticipantsSgd) -> Tensor:
    """Return what belongs to each active participant, (active, batch, ...), of (active x batch, ...)."""
    return x.reshape(sgd.active, -1, *x.shape[1:])
