"""The models a configuration can name, each as a trainer made for the data at hand."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from auxo.learning.federated_data import FederatedData
from auxo.learning.softmax import SoftmaxTrainer
from auxo.learning.trainer import Trainer

if TYPE_CHECKING:
    from torch import nn

Model = Literal["softmax", "mlp", "cnn", "leaf-cnn", "resnet18"]

MODELS: tuple[str, ...] = get_args(Model)
"""Every name that `make_trainer` knows."""

Batching = Literal["auto", "stacked", "vmap", "one-by-one"]
"""How several participants train together: in stacked layers, by torch's vmap, or not at all."""


def make_trainer(model: str, data: FederatedData, batching: Batching = "auto") -> Trainer:
    """Return the trainer of the named model, sized for the inputs and the classes of ``data``.

    Args:
        model: one of `MODELS`.
        data: what it is to be trained on.
        batching: how participants train together; "auto" takes the fastest way that gives the right updates. Softmax
            regression has a way of its own.

    Raises:
        ValueError: the name is unknown, the model cannot take inputs of this shape, or cannot be trained in this way.
        ImportError: the model needs PyTorch, which is not installed.
    """
    if model not in MODELS:
        raise ValueError(f"model: expected one of {', '.join(MODELS)}, got {model!r}")
    if model == "softmax":
        return SoftmaxTrainer(n_features=int(np.prod(data.x.shape[1:])), n_classes=data.n_classes)
    try:
        # Imported here, so that numpy alone is enough for everything else.
        from auxo.learning.torch_trainer import TorchTrainer  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError(
            f'model "{model}" needs PyTorch, which is not installed: run pip install "auxo[torch]", '
            'or choose the model "softmax"'
        ) from error
    return TorchTrainer(_module_factory(model, data.x.shape[1:], data.n_classes)).suited_to(data, batching)


def note_on(trainer: Trainer) -> str | None:
    """Return what is to be said about how a trainer trains; None if there is nothing."""
    note: str | None = getattr(getattr(trainer, "way", None), "note", None)
    return note


def _module_factory(model: str, features: tuple[int, ...], n_classes: int) -> "Callable[[], nn.Module]":
    from auxo.learning.resnet import ResNet18  # noqa: PLC0415
    from auxo.learning.torch_models import LeafCnn, Mlp, SmallCnn, image_shape  # noqa: PLC0415

    if model == "mlp":
        return partial(Mlp, features=int(np.prod(features)), classes=n_classes)
    channels, side = image_shape(features)
    image_model = {"cnn": SmallCnn, "leaf-cnn": LeafCnn, "resnet18": ResNet18}[model]
    return partial(image_model, side=side, classes=n_classes, channels=channels)
