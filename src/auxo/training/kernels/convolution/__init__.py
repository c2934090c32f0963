"""Convolutions written by hand, for chains that begin with them; these names are the entrance."""

from auxo.training.kernels.convolution.conv_chain import ConvChain
from auxo.training.kernels.convolution.conv_stage import ConvStage
from auxo.training.kernels.convolution.winograd import MAX_KERNEL_SIZE

__all__ = ["MAX_KERNEL_SIZE", "ConvChain", "ConvStage"]
