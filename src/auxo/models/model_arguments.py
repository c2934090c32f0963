"""What a model is built with: the arguments that are given, and those that the data know."""

import inspect
from collections.abc import Callable, Mapping
from math import prod

from auxo.models.small_models import image_shape
from auxo.population.federated_data import FederatedData


def arguments_for(
    name: str, factory: Callable[..., object], given: Mapping[str, object], data: FederatedData
) -> dict[str, object]:
    """Return the keyword arguments to call a factory with: those given, and what else it asks for from the data.

    The data know ``features`` (the shape of an input), ``inputs`` (how many numbers that is), ``classes`` or
    ``n_classes``, of square images ``channels`` and ``side``, of windows of tokens ``length`` and ``vocabulary``.

    Args:
        name: of the model, for messages.
        factory: a class or a function; its signature says what it asks for.
        given: win over what the data know.
        data: what the model is to be trained on.

    Raises:
        ValueError: it does not know an argument that is given, or lacks one, or the data are not what it asks for.
    """
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):  # not written in Python: it does not say
        return dict(given)
    named = {p.name: p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    unknown = [key for key in given if key not in named]
    if unknown and not takes_any:
        own = [key for key in named if key not in _KNOWN_TO_DATA]
        known = f"one of {', '.join(own)}" if own else f"none, as {name} has nothing to set"
        raise ValueError(f"model_args: expected {known}, got {unknown[0]}")
    arguments = dict(given)
    for key, parameter in named.items():
        if key in given or key not in _KNOWN_TO_DATA:
            continue
        try:
            arguments[key] = _KNOWN_TO_DATA[key](data)
        except ValueError:
            if parameter.default is parameter.empty:
                raise
    lacking = [key for key, parameter in named.items() if key not in arguments and parameter.default is parameter.empty]
    if lacking:
        raise ValueError(f"model_args: {name} needs {', '.join(lacking)}, which the data do not know; set it there")
    return arguments


def _image(data: FederatedData) -> tuple[int, int]:
    if data.has_tokens:
        raise ValueError(f"x: expected images, got tokens of a text, of shape {data.features}")
    return image_shape(data.features)


def _length(data: FederatedData) -> int:
    if not data.has_tokens or len(data.features) != 1:
        kind = "tokens" if data.has_tokens else "numbers"
        raise ValueError(f"x: expected windows of tokens (int32), (length,), got {kind} of shape {data.features}")
    return data.features[0]


def _vocabulary(data: FederatedData) -> int:
    _length(data)
    smallest, largest = (int(data.x.min()), int(data.x.max())) if data.x.size else (0, 0)
    if smallest < 0:
        raise ValueError(f"x: expected tokens from 0 on, got {smallest}")
    return max(data.n_classes, largest + 1)


_KNOWN_TO_DATA: dict[str, Callable[[FederatedData], object]] = {
    "features": lambda data: data.features,
    "inputs": lambda data: prod(data.features),
    "classes": lambda data: data.n_classes,
    "n_classes": lambda data: data.n_classes,
    "channels": lambda data: _image(data)[0],
    "side": lambda data: _image(data)[1],
    "length": _length,
    "vocabulary": _vocabulary,
}
