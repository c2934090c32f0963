"""Modules of many kinds, and the way in which their participants should train."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from auxo.models.small_models import LeafCnn, Mlp, SmallCnn
from tests.training.side_by_side import CLASSES

SIDE, PIXELS, HIDDEN = 8, 64, 16


class Net(nn.Module):
    """Two linear layers, to be put together in one way or another; alone, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(PIXELS, HIDDEN)
        self.second = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.logits(torch.tanh(self.first(x.flatten(1))))

    def logits(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.second(hidden)
        return logits


class OwnParameter(Net):
    def __init__(self) -> None:
        super().__init__()
        self.temperature = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * self.temperature


class OwnParameterAndConvolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cnn = SmallCnn(SIDE, CLASSES)
        self.temperature = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.cnn(x) * self.temperature
        return logits


class LayerUsedTwice(Net):
    def __init__(self) -> None:
        super().__init__()
        self.middle = nn.Linear(HIDDEN, HIDDEN)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.first(x.flatten(1)))
        return self.logits(torch.tanh(self.middle(torch.tanh(self.middle(hidden)))))


class LinkUsedTwice(nn.Module):
    """A plain chain of layers but for one that comes twice."""

    def __init__(self) -> None:
        super().__init__()
        self.flat, self.rectify = nn.Flatten(), nn.ReLU()
        self.first, self.middle = nn.Linear(PIXELS, HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.last = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.rectify(self.first(self.flat(x)))
        logits: Tensor = self.last(self.rectify(self.middle(self.rectify(self.middle(hidden)))))
        return logits


class InputLayerUsedTwice(Net):
    def forward(self, x: Tensor) -> Tensor:
        return self.logits(torch.tanh(self.first(x.flatten(1))) * self.first(x.flatten(1)))


class TiedWeights(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Linear(PIXELS, PIXELS)
        self.decode = nn.Linear(PIXELS, PIXELS)
        self.decode.weight = self.encode.weight
        self.classify = nn.Linear(PIXELS, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.classify(torch.tanh(self.decode(torch.tanh(self.encode(x.flatten(1))))))
        return logits


class SameLayerInTwoPlaces(LayerUsedTwice):
    def __init__(self) -> None:
        super().__init__()
        self.again = self.middle

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.first(x.flatten(1)))
        return self.logits(torch.tanh(self.again(torch.tanh(self.middle(hidden)))))


class SkipConnection(Net):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + x.flatten(1)[:, :CLASSES]


class HiddenSkipConnection(nn.Module):
    """One whose other end is a layer: the layer's outputs are not all that the inputs do."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(PIXELS, PIXELS)
        self.second = nn.Linear(PIXELS, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(1)
        logits: Tensor = self.second(flat + torch.tanh(self.first(flat)))
        return logits


class ScaledInputs(Net):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x / 2)


class InputsScaledInPlace(Net):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.mul_(0.5))


class TurnedInputs(Net):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.transpose(1, 2))


class OwnLinear(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


class SubclassOfLinear(Net):
    def __init__(self) -> None:
        super().__init__()
        self.first = OwnLinear(PIXELS, HIDDEN)


class FrozenInputLayer(Net):
    def __init__(self) -> None:
        super().__init__()
        self.first.requires_grad_(False)


class FrozenMiddleLayer(LayerUsedTwice):
    def __init__(self) -> None:
        super().__init__()
        self.middle.requires_grad_(False)


class FrozenBias(Net):
    def __init__(self) -> None:
        super().__init__()
        self.first.bias.requires_grad_(False)


class UnusedLayer(Net):
    def __init__(self) -> None:
        super().__init__()
        self.unused = nn.Linear(HIDDEN, 3)


class LayerWithoutGradient(Net):
    """Adds what a layer says without letting it learn; at work it is, in training it is not."""

    def __init__(self) -> None:
        super().__init__()
        self.deaf = nn.Linear(PIXELS, HIDDEN)

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(1)
        return self.logits(torch.tanh(self.first(flat) + self.deaf(flat).detach()))


class CalledByKeyword(Net):
    def forward(self, x: Tensor) -> Tensor:
        return self.logits(torch.tanh(self.first(input=x.flatten(1))))


class KeepsWhatItSaid(Net):
    def forward(self, x: Tensor) -> Tensor:
        self.last = super().forward(x)
        return self.last


class LayersInAList(nn.Module):
    """Calls layers by a list of its own, which does not hear of their being replaced."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(PIXELS, HIDDEN), nn.Linear(HIDDEN, CLASSES)
        self.in_order = [self.first, self.second]

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.in_order[1](torch.tanh(self.in_order[0](x.flatten(1))))
        return logits


class HookedLayer(Net):
    def __init__(self) -> None:
        super().__init__()
        self.first.register_forward_hook(lambda layer, given, made: made + 1)


def clips_errors() -> nn.Module:
    """Return a network whose hook does nothing while errors are small, as they are at first."""
    made = nn.Sequential(nn.Flatten(), nn.Linear(PIXELS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES))

    def clip(layer: nn.Module, errors: tuple[Tensor, ...], of_outputs: object) -> tuple[Tensor, ...]:
        return tuple(error.clamp(-10.0, 10.0) for error in errors)

    made[2].register_full_backward_hook(clip)
    return made


def hooked_parameter() -> nn.Module:
    """Return a network one of whose gradients is limited."""
    layer = nn.Linear(PIXELS, CLASSES)
    layer.weight.register_hook(lambda gradient: gradient.clamp(-10.0, 10.0))  # type: ignore[no-untyped-call]
    return nn.Sequential(nn.Flatten(), layer)


class SequenceFirst(nn.Module):
    """Puts the batch second, as recurrent layers do unless they are told otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Linear(SIDE, HIDDEN)
        self.classify = nn.Linear(SIDE * HIDDEN, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        rows = torch.tanh(self.rows(x.transpose(0, 1)))
        logits: Tensor = self.classify(rows.transpose(0, 1).flatten(1))
        return logits


class InPieces(Net):
    """Goes through a large batch piece by piece."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.rows_at_once = rows

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([super(InPieces, self).forward(rows / 2) for rows in torch.split(x, self.rows_at_once)])


class CentredOnTheBatch(Net):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x - x.mean(dim=0))


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.LSTM] | type[nn.GRU]) -> None:
        super().__init__()
        self.rows = kind(SIDE, HIDDEN, batch_first=True)
        self.classify = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.classify(self.rows(x)[0][:, -1])
        return logits


def in_place() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, SIDE)),
        nn.Conv2d(1, 4, 3),
        nn.GroupNorm(2, 4),
        nn.ReLU(inplace=True),
        nn.Flatten(),
        nn.Linear(144, HIDDEN),
        nn.ReLU(inplace=True),
        nn.Linear(HIDDEN, CLASSES),
    )


def batch_norm_of_images() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, SIDE)),
        nn.Conv2d(1, 4, 3),
        nn.BatchNorm2d(4, track_running_stats=False),
        nn.Flatten(),
        nn.Linear(144, CLASSES),
    )


def batch_norm_without_weights() -> nn.Module:
    module = batch_norm_of_images()
    assert isinstance(module, nn.Sequential)
    module[2] = nn.BatchNorm2d(4, affine=False, track_running_stats=False)
    return module


def with_dropout(share: float) -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(PIXELS, HIDDEN), nn.Dropout(share), nn.ReLU(), nn.Linear(HIDDEN, CLASSES)
    )


def with_conv1d() -> nn.Module:
    return nn.Sequential(nn.Conv1d(SIDE, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(24, CLASSES))


Factory = Callable[[], nn.Module]

# Where the choice is certain it is given; where only the result matters it is not.
CHOICES: dict[str, tuple[Factory, str | None, tuple[str, ...]]] = {
    "mlp": (partial(Mlp, PIXELS, CLASSES), "stacked", ("layers.1",)),
    "cnn": (partial(SmallCnn, SIDE, CLASSES), "stacked", ()),
    "leaf-cnn": (partial(LeafCnn, SIDE, CLASSES, hidden=32), "stacked", ()),
    "linear": (lambda: nn.Sequential(nn.Flatten(), nn.Linear(PIXELS, CLASSES)), "stacked", ("1",)),
    "scaled inputs": (ScaledInputs, "stacked", ()),
    "inputs scaled in place": (InputsScaledInPlace, None, ()),
    "turned inputs": (TurnedInputs, "stacked", ()),
    "skip connection": (SkipConnection, "stacked", ()),
    "hidden skip connection": (HiddenSkipConnection, "stacked", ()),
    "frozen input layer": (FrozenInputLayer, "stacked", ()),
    "frozen layer": (FrozenMiddleLayer, "stacked", ("first",)),
    "own parameter": (OwnParameter, "vmap", ()),
    "layer used twice": (LayerUsedTwice, "vmap", ()),
    "link used twice": (LinkUsedTwice, "vmap", ()),
    "input layer used twice": (InputLayerUsedTwice, "vmap", ()),
    "tied weights": (TiedWeights, "vmap", ()),
    "same layer in two places": (SameLayerInTwoPlaces, "vmap", ()),
    "subclass of a layer": (SubclassOfLinear, "vmap", ()),
    "frozen bias": (FrozenBias, "vmap", ()),
    "layers in a list": (LayersInAList, "vmap", ()),
    "batch second": (SequenceFirst, "vmap", ()),
    "batch norm": (batch_norm_of_images, "one-by-one", ()),
    "batch norm without weights": (batch_norm_without_weights, "one-by-one", ()),
    "centred on the batch": (CentredOnTheBatch, "one-by-one", ()),
    "lstm": (partial(Recurrent, nn.LSTM), None, ()),
    "gru": (partial(Recurrent, nn.GRU), None, ()),
    "one-dimensional convolution": (with_conv1d, None, ()),
    "own parameter and convolution": (OwnParameterAndConvolution, None, ()),
    "unused layer": (UnusedLayer, None, ("first",)),
    "layer without gradient": (LayerWithoutGradient, None, ()),
    "called by keyword": (CalledByKeyword, None, ()),
    "keeps what it said": (KeepsWhatItSaid, None, ()),
    "hooked layer": (HookedLayer, "one-by-one", ()),
    "clips errors": (clips_errors, "one-by-one", ()),
    "hooked parameter": (hooked_parameter, "one-by-one", ()),
    "in place": (in_place, None, ()),
    "in pieces": (partial(InPieces, 16), "vmap", ()),
}
