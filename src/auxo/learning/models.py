"""The models a configuration can name, each as a trainer made for the data at hand."""

from functools import partial
from typing import Literal, get_args

import numpy as np

from auxo.learning.federated_data import FederatedData
from auxo.learning.softmax import SoftmaxTrainer
from auxo.learning.trainer import Trainer

Model = Literal["softmax", "mlp", "cnn"]

MODELS: tuple[str, ...] = get_args(Model)
"""Every name that `make_trainer` knows."""


def make_trainer(model: str, data: FederatedData) -> Trainer:
    """Return the trainer of the named model, sized for the inputs and the classes of ``data``.

    Raises:
        ValueError: the name is unknown, or the model cannot take inputs of this shape.
        ImportError: the model needs PyTorch, which is not installed.
    """
    features = data.x.shape[1:]
    match model:
        case "softmax":
            return SoftmaxTrainer(n_features=int(np.prod(features)), n_classes=data.n_classes)
        case "mlp" | "cnn":
            return _make_torch_trainer(model, features, data.n_classes)
        case _:
            raise ValueError(f"model: expected one of {', '.join(MODELS)}, got {model!r}")


def _make_torch_trainer(model: Literal["mlp", "cnn"], features: tuple[int, ...], n_classes: int) -> Trainer:
    try:
        # Imported here, so that numpy alone is enough for everything else.
        from auxo.learning.torch_models import Mlp, SmallCnn, image_shape  # noqa: PLC0415
        from auxo.learning.torch_trainer import TorchTrainer  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError(
            f'model "{model}" needs PyTorch, which is not installed: run pip install "auxo[torch]", '
            'or choose the model "softmax"'
        ) from error
    if model == "mlp":
        return TorchTrainer(partial(Mlp, features=int(np.prod(features)), classes=n_classes))
    channels, side = image_shape(features)
    return TorchTrainer(partial(SmallCnn, side=side, classes=n_classes, channels=channels))
