"""A module for several participants at once: a copy whose trainable layers are stacked ones."""

import copy
from dataclasses import dataclass

from torch import nn

from auxo.training.kernels.participants_sgd import ParticipantsSgd
from auxo.training.kernels.stacked_conv import StackedConv, zero_padding
from auxo.training.kernels.stacked_layers import StackedAffine, StackedEmbedding, StackedLinear
from auxo.training.kernels.stacked_parameter import StackedParameter
from auxo.training.kernels.stacked_pooling import StackedMaxPool, is_max_pool_2x2
from auxo.training.kernels.stacking import Unstackable


@dataclass(frozen=True)
class StackedModule:
    """A module for several participants, and the state of their training."""

    module: nn.Module
    sgd: ParticipantsSgd
    parameters: tuple[StackedParameter, ...]  # all that is trainable, in the order of the flat weights
    linear: dict[str, StackedParameter]  # the weight of every linear layer by name


def stack_module(module: nn.Module) -> StackedModule | Unstackable:
    """Return a copy of the module whose trainable layers are stacked ones.

    Known are linear layers, 2-d convolutions, group and layer norms, and embeddings, each trainable as a whole.
    """
    sgd = ParticipantsSgd()
    places = _places(module)
    try:
        stacked = copy.deepcopy(module)
    except RuntimeError as error:  # it holds on to something it has computed
        return Unstackable(f"it cannot be copied ({str(error).split('.')[0]})")
    linear = {}
    for name, layer in list(stacked.named_modules()):
        if getattr(layer, "inplace", False) is True:
            layer.inplace = False  # what a stacked layer returns is a view, and must not be written to
        if is_max_pool_2x2(layer) and name:
            _put(stacked, name, StackedMaxPool())
            continue
        own = dict(layer.named_parameters(recurse=False))
        if not any(parameter.requires_grad for parameter in own.values()):
            continue
        made = _stack_layer(sgd, layer, {key: places.get(f"{name}.{key}" if name else key) for key in own})
        if isinstance(made, Unstackable):
            return Unstackable(f"{name or 'the module'} ({type(layer).__name__}) {made.reason}")
        if name == "":
            stacked = made
        else:
            _put(stacked, name, made)
        if isinstance(made, StackedLinear):
            linear[name] = made.weight
    if any(parameter.requires_grad for parameter in stacked.parameters()):
        return Unstackable("it uses the same layer in two places")
    return StackedModule(stacked, sgd, tuple(places.values()), linear)


def _put(module: nn.Module, name: str, layer: nn.Module) -> None:
    parent, _, key = name.rpartition(".")
    setattr(module.get_submodule(parent), key, layer)


def _places(module: nn.Module) -> dict[str, StackedParameter]:
    places, offset = {}, 0
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            places[name] = StackedParameter(offset, tuple(parameter.shape))
            offset += parameter.numel()
    return places


def _stack_layer(
    sgd: ParticipantsSgd, layer: nn.Module, own: dict[str, StackedParameter | None]
) -> nn.Module | Unstackable:
    weight, bias = own.get("weight"), own.get("bias")
    if weight is None or not all(own.values()):
        return Unstackable("is trainable in part, or shares its weights, or is not known")
    # The very type: a subclass may compute something else.
    if type(layer) is nn.Linear:
        return StackedLinear(sgd, weight, bias)
    if type(layer) is nn.Conv2d and zero_padding(layer) is not None:
        return StackedConv(sgd, layer, weight, bias)
    if isinstance(layer, nn.GroupNorm | nn.LayerNorm) and type(layer) in (nn.GroupNorm, nn.LayerNorm) and bias:
        return StackedAffine(sgd, layer, weight, bias)
    has_own_way = isinstance(layer, nn.Embedding) and (
        layer.max_norm is not None or layer.padding_idx is not None or layer.scale_grad_by_freq
    )
    if type(layer) is nn.Embedding and not has_own_way:
        return StackedEmbedding(sgd, weight)
    return Unstackable("is a layer that participants cannot share a call of")
