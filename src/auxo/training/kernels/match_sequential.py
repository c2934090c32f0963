"""Which modules are an `nn.Sequential` in effect, of layers whose steps can be taken by hand."""

from dataclasses import dataclass, field, replace

from torch import nn

from auxo.training.kernels.convolution import MAX_KERNEL_SIZE, ConvChain, ConvStage
from auxo.training.kernels.linear_chain import ChainLinear, LinearChain
from auxo.training.kernels.stacked_conv import StackedConv
from auxo.training.kernels.stacked_layers import StackedLinear
from auxo.training.kernels.stacked_pooling import is_max_pool_2x2
from auxo.training.kernels.trace_sequential import trace_sequential

Chain = LinearChain | ConvChain


def match_sequential(module: nn.Module, stacked: nn.Module) -> Chain | None:
    """Return the chain that a module is; None if it does anything besides passing its input from layer to layer.

    Args:
        module: what was stacked; its forward pass is traced.
        stacked: the same with stacked layers, under the same names.
    """
    layers = trace_sequential(module)
    if layers is None:
        return None
    matched = _Matched()
    used = set()
    for name, layer in layers:
        found = stacked.get_submodule(name) if name else layer
        has_weights = isinstance(found, StackedLinear | StackedConv)
        # A layer used twice would move before its other use looks back.
        if (has_weights and name in used) or not matched.append(found, layer):
            return None
        used.add(name)
    return matched.chain()


@dataclass
class _Matched:
    """The layers matched so far."""

    linear: list[ChainLinear] = field(default_factory=list)
    stages: list[ConvStage] = field(default_factory=list)
    shape: tuple[int, ...] | None = None
    is_flat: bool = False

    def chain(self) -> Chain | None:
        """Return the chain, if its last layer is a linear one."""
        if not self.linear or self.linear[-1].has_relu:
            return None
        head = LinearChain(tuple(self.linear))
        return ConvChain(tuple(self.stages), head, self.shape) if self.stages else head

    def append(self, stacked: nn.Module, layer: nn.Module) -> bool:
        """Add a layer, and return whether it could come next."""
        if type(layer) is nn.Identity:
            return True
        if isinstance(stacked, StackedLinear):
            self.linear.append(ChainLinear(stacked.weight, stacked.bias, has_relu=False))
            return self.is_flat or not self.stages
        if isinstance(stacked, StackedConv):
            self.stages.append(ConvStage(stacked.weight, stacked.bias, stacked.padding))
            return not (self.linear or self.is_flat) and _is_matched(stacked.like)
        if type(layer) is nn.ReLU:
            return self._append_relu()
        if is_max_pool_2x2(layer):
            return self._append_pool()
        return not self.linear and self._reshape(layer)

    def _append_relu(self) -> bool:
        if self.linear and not self.linear[-1].has_relu:
            self.linear[-1] = replace(self.linear[-1], has_relu=True)
        elif self.stages and not self.linear:
            self.stages[-1] = replace(self.stages[-1], has_relu=True)  # twice is no more than once
        else:
            return False
        return True

    def _append_pool(self) -> bool:
        if not self.stages or self.is_flat or self.linear or self.stages[-1].has_pool:
            return False
        self.stages[-1] = replace(self.stages[-1], has_pool=True)
        return True

    def _reshape(self, layer: nn.Module) -> bool:
        """Give the samples the shape of images, or none."""
        for part in layer if type(layer) is nn.Sequential else [layer]:
            if type(part) is nn.Flatten and (part.start_dim, part.end_dim) == (1, -1):
                self.is_flat, self.shape = bool(self.stages), self.shape if self.stages else None
            elif type(part) is nn.Unflatten and part.dim == 1 and not self.stages and len(part.unflattened_size) == 3:
                self.shape = tuple(int(size) for size in part.unflattened_size)
            else:
                return False
        return self.shape is None or min(self.shape) > 0


def _is_matched(conv: nn.Conv2d) -> bool:
    """Return whether a convolution has stride 1, no dilation, no groups and a small kernel."""
    is_plain = conv.stride == (1, 1) and conv.dilation == (1, 1) and conv.groups == 1
    return is_plain and max(conv.kernel_size) <= MAX_KERNEL_SIZE
