"""Local training of several participants at once for any module whose operations torch can map over them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from auxo.core.types import Float32Array, FloatArray, IntArray
from auxo.population.federated_data import FederatedData
from auxo.training.objective import CLASSIFICATION, Objective
from auxo.training.stacked_batches import StackedBatches
from auxo.training.trainer import LocalTraining


@dataclass(frozen=True)
class VmapTraining:
    """Trains a module by mapping its gradient over participants; nothing about the module need be known."""

    module: nn.Module
    objective: Objective = CLASSIFICATION

    def train(
        self,
        weights: Float32Array,
        data: FederatedData,
        batches: Sequence[IntArray],
        settings: LocalTraining,
        out: Float32Array,
        asked: IntArray | None = None,
    ) -> list[FloatArray]:
        """Write the updates of jobs with these batches to ``out``, (jobs, parameters); no losses come with them."""
        stack = StackedBatches.of(data, batches)
        start = torch.from_numpy(weights if weights.flags.writeable else weights.copy())
        params = start.repeat(len(batches), 1)
        velocities = torch.zeros_like(params) if settings.momentum else None
        gradient_of = vmap(grad(self._loss))
        self.module.train()
        for step, active in enumerate(stack.active):
            x = torch.from_numpy(data.inputs(stack.x_rows[step, :active]))
            y = torch.from_numpy(data.answers(stack.y[step, :active]))
            shares = torch.from_numpy(stack.shares[step, :active])
            gradient = gradient_of(params[:active], x, y, shares)
            if settings.weight_decay:
                gradient = gradient.add(params[:active], alpha=settings.weight_decay)
            if settings.proximal:
                gradient = gradient.add(params[:active] - start, alpha=settings.proximal)
            if velocities is not None:
                gradient = velocities[:active].mul_(settings.momentum).add_(gradient)
            params[:active].sub_(gradient, alpha=settings.learning_rate)
        out[stack.job_rows] = params.sub_(start).numpy()
        return [np.zeros(0)] * len(batches)

    def logits_at(self, weights: Float32Array) -> None:
        """Return that there is no faster way than the module's to what it makes of samples."""

    def _loss(self, flat: Tensor, x: Tensor, y: Tensor, shares: Tensor) -> Tensor:
        logits = functional_call(self.module, self._unflattened(flat), (x,))
        return (self.objective.losses(logits, y) * shares).sum()

    def _unflattened(self, flat: Tensor) -> dict[str, Tensor]:
        parameters, first = {}, 0
        for name, parameter in self.module.named_parameters():
            if parameter.requires_grad:
                parameters[name] = flat[first : first + parameter.numel()].view_as(parameter)
                first += parameter.numel()
        return parameters
