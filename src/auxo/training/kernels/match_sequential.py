"""Which modules are plain chains of layers, whose steps can be taken by hand."""

from dataclasses import dataclass, field, replace

from torch import nn

from auxo.training.kernels.conv_chain import ImageChain
from auxo.training.kernels.conv_stage import Stage
from auxo.training.kernels.linear_chain import LinearChain, Link
from auxo.training.kernels.stacked_conv import StackedConv
from auxo.training.kernels.stacked_layers import StackedLinear
from auxo.training.kernels.stacked_pooling import is_pool_of_four
from auxo.training.kernels.trace_sequential import layers_in_order
from auxo.training.kernels.winograd import MOST_TAPS

Chain = LinearChain | ImageChain


def find_chain(module: nn.Module, stacked: nn.Module) -> Chain | None:
    """Return the chain that a module is; None if it does anything besides passing its input from layer to layer.

    Args:
        module: what was stacked; its forward pass is traced.
        stacked: the same with stacked layers, under the same names.
    """
    layers = layers_in_order(module)
    if layers is None:
        return None
    made = _Made()
    used = set()
    for name, layer in layers:
        found = stacked.get_submodule(name) if name else layer
        has_weights = isinstance(found, StackedLinear | StackedConv)
        # A layer used twice would move before its other use looks back.
        if (has_weights and name in used) or not made.take(found, layer):
            return None
        used.add(name)
    return made.chain()


@dataclass
class _Made:
    """What has been put together so far."""

    links: list[Link] = field(default_factory=list)
    stages: list[Stage] = field(default_factory=list)
    shape: tuple[int, ...] | None = None
    is_flat: bool = False

    def chain(self) -> Chain | None:
        """Return the chain, if its last layer is a linear one."""
        if not self.links or self.links[-1].is_rectified:
            return None
        head = LinearChain(tuple(self.links))
        return ImageChain(tuple(self.stages), head, self.shape) if self.stages else head

    def take(self, stacked: nn.Module, layer: nn.Module) -> bool:
        """Add a layer, if it can come next."""
        if type(layer) is nn.Identity:
            return True
        if isinstance(stacked, StackedLinear):
            self.links.append(Link(stacked.weight, stacked.bias, is_rectified=False))
            return self.is_flat or not self.stages
        if isinstance(stacked, StackedConv):
            self.stages.append(Stage(stacked.weight, stacked.bias, stacked.padding))
            return not (self.links or self.is_flat) and _is_plain(stacked.like)
        if type(layer) is nn.ReLU:
            return self._rectify()
        if is_pool_of_four(layer):
            return self._pool()
        return not self.links and self._reshape(layer)

    def _rectify(self) -> bool:
        if self.links and not self.links[-1].is_rectified:
            self.links[-1] = replace(self.links[-1], is_rectified=True)
        elif self.stages and not self.links:
            self.stages[-1] = replace(self.stages[-1], is_rectified=True)  # twice is no more than once
        else:
            return False
        return True

    def _pool(self) -> bool:
        if not self.stages or self.is_flat or self.links or self.stages[-1].is_pooled:
            return False
        self.stages[-1] = replace(self.stages[-1], is_pooled=True)
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


def _is_plain(conv: nn.Conv2d) -> bool:
    """Return whether filters move on by one pixel at a time, over neighbours and all channels, and are small."""
    plain = conv.stride == (1, 1) and conv.dilation == (1, 1) and conv.groups == 1
    return plain and max(conv.kernel_size) <= MOST_TAPS
