"""Steps of a plain convolutional network for several participants at once, forward and backward by hand.

Such a network is a row of convolutions, with ReLUs and poolings behind them, and linear layers in the end. The
convolutions are trained participant by participant (see `conv_stage`), the rest with all of them side by side.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from auxo.training.kernels.convolution.conv_stage import ConvStage
from auxo.training.kernels.linear_chain import LinearChain
from auxo.training.kernels.participants_sgd import ParticipantsSgd

_IMAGES_AT_ONCE = 8  # in a pass without a step; about as many as in one with a step, which stay in the cache


@dataclass(frozen=True)
class ConvChain:
    """Stages, and linear layers on the flattened outputs of the last of them.

    Args:
        stages: from the images on.
        head: the linear layers.
        shape: channels, height and width of the images, where samples do not come as such.
    """

    stages: tuple[ConvStage, ...]
    head: LinearChain
    shape: tuple[int, ...] | None = None

    def set_memory_format(self, weights: dict[int, Tensor]) -> None:
        """Lay the participants' weights out as the steps read them."""
        for stage in self.stages:
            stage.set_memory_format(weights)

    def is_faster_for(self, features: tuple[int, ...]) -> bool:
        """Return whether it beats layer after layer for samples of this shape: not where images are large."""
        shape = self._shape(features)
        if len(shape) != 3:
            return False
        size: tuple[int, ...] = shape[1:]
        for number, stage in enumerate(self.stages):
            if not stage.is_faster_for(size, needs_dx=number > 0):
                return False
            size = stage.output_size(size)
        return True

    def step(self, sgd: ParticipantsSgd, x: Tensor, labels: Tensor, shares: Tensor) -> None:
        """Take a step with ``x``, (active x batch, ...)."""
        images = x.view(sgd.active, -1, *self._shape(x.shape[1:]))
        outputs, saved = [], []
        for job, samples in enumerate(sgd.samples):
            y, of_job = images[job, :samples].permute(2, 3, 0, 1), []
            for number, stage in enumerate(self.stages):
                y, of_stage = stage.forward(sgd, job, y, needs_dx=number > 0)
                of_job.append(of_stage)
            outputs.append(y)
            saved.append(of_job)
        height, width, _, channels = outputs[0].shape
        flat = x.new_zeros(sgd.active, sgd.batch, channels, height, width)
        for rows, y in zip(flat, outputs, strict=True):
            rows[: y.shape[2]] = y.permute(2, 3, 0, 1)
        by_head = self.head.step_and_dx(sgd, flat.flatten(0, 1), labels, shares, needs_dx=True).view_as(flat)
        for job, of_job in enumerate(saved):
            dy: Tensor | None = by_head[job, : outputs[job].shape[2]].permute(2, 3, 0, 1).contiguous()
            for number in range(len(self.stages) - 1, -1, -1):
                assert dy is not None  # noqa: S101 - only the first stage returns none
                dy = self.stages[number].backward(sgd, job, dy, of_job[number], needs_dx=number > 0)

    def logits(self, sgd: ParticipantsSgd, x: Tensor) -> Tensor:
        """Return the logits for all samples of one participant, with weights that stay as they are."""
        flat = []
        for images in torch.split(x.reshape(-1, *self._shape(x.shape[1:])), _IMAGES_AT_ONCE):
            y = images.permute(2, 3, 0, 1)
            for number, stage in enumerate(self.stages):
                y, _ = stage.forward(sgd, 0, y, needs_dx=number > 0)
            flat.append(y.permute(2, 3, 0, 1).flatten(1))
        return self.head.logits(sgd, torch.cat(flat).unsqueeze(0))[0]

    def _shape(self, features: Sequence[int]) -> tuple[int, ...]:
        if self.shape is not None:
            return self.shape
        return (1, *features) if len(features) == 2 else tuple(features)
