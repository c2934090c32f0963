"""Steps of a plain convolutional network for several participants at once, forwards and backwards by hand.

Such a network is a row of convolutions, with ReLUs and poolings behind them, and linear layers in the end. The images'
part is trained participant by participant (see `conv_stage`), the rest with all of them side by side.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from auxo.training.kernels.conv_stage import Stage
from auxo.training.kernels.linear_chain import LinearChain
from auxo.training.kernels.participants_sgd import Bench


@dataclass(frozen=True)
class ImageChain:
    """Stages, and linear layers on the pixels of what the last of them returns.

    Args:
        stages: from the images on.
        head: the linear layers.
        shape: channels, height and width of the images, where samples do not come as such.
    """

    stages: tuple[Stage, ...]
    head: LinearChain
    shape: tuple[int, ...] | None = None

    def lay_out(self, weights: dict[int, Tensor]) -> None:
        """Let the participants' weights lie as they are used."""
        for stage in self.stages:
            stage.lay_out(weights)

    def is_worth_it(self, features: tuple[int, ...]) -> bool:
        """Return whether it beats layer after layer for samples of this shape: not where images are large."""
        shape = self._shape(features)
        if len(shape) != 3:
            return False
        size: tuple[int, ...] = shape[1:]
        for number, stage in enumerate(self.stages):
            if not stage.is_worth_it(size, is_raw=number == 0):
                return False
            size = stage.size_after(size)
        return True

    def step(self, bench: Bench, x: Tensor, labels: Tensor, shares: Tensor) -> None:
        """Take a step with ``x``, (active x batch, ...)."""
        images = x.view(bench.active, -1, *self._shape(x.shape[1:]))
        reached, passed = [], []
        for job, kept in enumerate(bench.samples):
            y, of_job = images[job, :kept].permute(2, 3, 0, 1), []
            for number, stage in enumerate(self.stages):
                y, of_stage = stage.forward(bench, job, y, is_raw=number == 0)
                of_job.append(of_stage)
            reached.append(y)
            passed.append(of_job)
        height, width, _, channels = reached[0].shape
        flat = x.new_zeros(bench.active, bench.batch, channels, height, width)
        for rows, y in zip(flat, reached, strict=True):
            rows[: y.shape[2]] = y.permute(2, 3, 0, 1)
        errors = self.head.step_back(bench, flat.flatten(0, 1), labels, shares, wants_errors=True).view_as(flat)
        for job, of_job in enumerate(passed):
            dy: Tensor | None = errors[job, : reached[job].shape[2]].permute(2, 3, 0, 1).contiguous()
            for number in range(len(self.stages) - 1, -1, -1):
                assert dy is not None  # noqa: S101 - only the first stage returns none
                dy = self.stages[number].backward(bench, job, dy, of_job[number], is_raw=number == 0)

    def _shape(self, features: Sequence[int]) -> tuple[int, ...]:
        if self.shape is not None:
            return self.shape
        return (1, *features) if len(features) == 2 else tuple(features)
