"""The models a configuration can name, each as a trainer made for the data at hand."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Literal

from auxo.population.federated_data import FederatedData
from auxo.registry.import_path import is_import_path
from auxo.training.softmax_trainer import SoftmaxTrainer
from auxo.training.trainer import Batching, Trainer

Inputs = Literal["numbers", "images", "tokens"]
"""What a model takes: inputs of any shape, square images, or windows of tokens."""

ModelArgument = bool | int | float | str | list[bool | int | float | str]
"""What a configuration can set of a model."""


@dataclass(frozen=True)
class _Known:
    takes: Inputs
    about: str
    path: str | None = None  # of the torch module; None: softmax regression needs none


_KNOWN = {
    "softmax": _Known("numbers", "Softmax regression in numpy: a linear model of any inputs."),
    "linear": _Known("numbers", "One linear layer on inputs of any shape.", "auxo.models.small_models:Linear"),
    "mlp": _Known("numbers", "One hidden layer on inputs of any shape.", "auxo.models.small_models:Mlp"),
    "cnn": _Known("images", "A small convolutional network.", "auxo.models.small_models:SmallCnn"),
    "leaf-cnn": _Known("images", "LEAF's convolutional network for FEMNIST.", "auxo.models.small_models:LeafCnn"),
    "resnet18": _Known("images", "ResNet-18 with group norm.", "auxo.models.resnet:ResNet18"),
    "resnet34": _Known("images", "ResNet-34 with group norm.", "auxo.models.resnet:ResNet34"),
    "mobilenet-v2": _Known("images", "MobileNet-V2 with group norm.", "auxo.models.mobilenet:MobileNetV2"),
    "shufflenet-v2": _Known("images", "ShuffleNet-V2 1x with group norm.", "auxo.models.shufflenet:ShuffleNetV2"),
    "window-mlp": _Known("tokens", "One hidden layer on a window of tokens.", "auxo.models.language_models:WindowMlp"),
    "char-lstm": _Known("tokens", "An LSTM.", "auxo.models.language_models:CharLstm"),
    "char-transformer": _Known("tokens", "A small transformer.", "auxo.models.language_models:CharTransformer"),
    "albert": _Known("tokens", "ALBERT, drawn at random (extra auxo[text]).", "auxo.models.albert:Albert"),
}
_EXTRAS = {"torch": ("PyTorch", "auxo[torch]"), "transformers": ("transformers", "auxo[text]")}

MODELS: tuple[str, ...] = tuple(_KNOWN)
"""Every name that `make_trainer` knows; it takes import paths besides."""


def described_models() -> dict[str, str]:
    """Return what each model is, and what it takes."""
    return {name: f"{known.about} Takes {known.takes}." for name, known in _KNOWN.items()}


def check_model(model: str) -> None:
    """Raise a ValueError unless a model is known by name, or named by an import path, which is not followed."""
    if model not in _KNOWN and not is_import_path(model):
        near = difflib.get_close_matches(model, MODELS, n=1)
        hint = f'; did you mean "{near[0]}"?' if near else ""
        raise ValueError(
            f'model: expected one of {", ".join(MODELS)}, or a module of your own as "package.module:Name" or '
            f'"file.py:Name", got "{model}"{hint}'
        )


def inputs_of(model: str) -> Inputs | None:
    """Return what a model takes; None for a module of the user's own, which nothing is known about."""
    return _KNOWN[model].takes if model in _KNOWN else None


def make_trainer(
    model: str,
    data: FederatedData,
    batching: Batching = "auto",
    model_args: Mapping[str, ModelArgument] | None = None,
    loss: str | None = None,
    metric: str | None = None,
) -> Trainer:
    """Return the trainer of a model, sized for the inputs and the classes of ``data``.

    Args:
        model: one of `MODELS`, or the import path of a torch module or of a function that makes one.
        data: what it is to be trained on.
        batching: how participants train together; "auto" takes the fastest way that gives the right updates. Softmax
            regression has a way of its own.
        model_args: what to build the model with besides what the data know; None for nothing.
        loss: import path of a loss of one's own, see `auxo.training.objective`; None: that of the data's task.
        metric: the same of a score.

    Raises:
        ValueError: the name is unknown, the model cannot take such inputs or arguments, or be trained in this way.
        ImportError: the model needs PyTorch or another library that is not installed.
    """
    check_model(model)
    _check_inputs(model, data)
    arguments = model_args or {}
    if model == "softmax":
        if data.task != "classification" or loss is not None or metric is not None:
            asked = f"the data ask for {data.task}" if data.task != "classification" else "a loss or metric is set"
            raise ValueError(f'it is for plain classification, but {asked}; choose "linear" or "mlp"')
        if arguments:
            raise ValueError(f"model_args: expected none, as softmax has nothing to set, got {', '.join(arguments)}")
        return SoftmaxTrainer(n_features=prod(data.features), n_classes=data.n_classes)
    try:
        return _torch_trainer(model, data, batching, arguments, (loss, metric))
    except ModuleNotFoundError as error:
        library, package = _EXTRAS.get(error.name or "", (error.name, error.name))
        others = ', or choose the model "softmax"' if error.name == "torch" else ""
        raise ImportError(
            f'model "{model}" needs {library}, which is not installed: run pip install "{package}"{others}'
        ) from error


def note_on(trainer: Trainer) -> str | None:
    """Return what is to be said about how a trainer trains; None if there is nothing."""
    note: str | None = getattr(getattr(trainer, "batching", None), "note", None)
    return note


def _check_inputs(model: str, data: FederatedData) -> None:
    takes = inputs_of(model)
    if takes is None or (takes == "tokens") == data.has_tokens:
        return
    got = "tokens of a text (int32)" if data.has_tokens else "numbers"
    fitting = [name for name, known in _KNOWN.items() if (known.takes == "tokens") == data.has_tokens]
    raise ValueError(f'x: model "{model}" takes {takes}, got {got}; choose one of {", ".join(fitting)}')


def _torch_trainer(
    model: str,
    data: FederatedData,
    batching: Batching,
    arguments: Mapping[str, ModelArgument],
    own: tuple[str | None, str | None],
) -> Trainer:
    # Imported here, so that numpy alone is enough for everything else.
    from auxo.models.module_factory import AsBuilt, check_logits, module_factory  # noqa: PLC0415
    from auxo.training.objective import objective_for  # noqa: PLC0415
    from auxo.training.torch_trainer import TorchTrainer, kaiming_uniform  # noqa: PLC0415

    known = _KNOWN.get(model)
    factory = module_factory(model, known.path if known and known.path else model, arguments, data)
    # Embeddings want larger weights than other layers, and a module of the user's own may have been trained before.
    draws_itself = known is None or known.takes == "tokens"
    objective = objective_for(data, *own)
    trainer = TorchTrainer(factory, AsBuilt(factory) if draws_itself else kaiming_uniform, objective=objective)
    check_logits(factory, data)
    return trainer.suited_to(data, batching)
