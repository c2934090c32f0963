from collections.abc import Callable

import pytest

from auxo.training.trainer import LocalTraining
from tests.training.side_by_side import CLASSES, all_jobs, largest_difference, population, updates

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

from auxo.models.small_models import Mlp  # noqa: E402
from auxo.training.batching import BatchingPlan  # noqa: E402
from auxo.training.kernels import Stacking  # noqa: E402
from auxo.training.kernels.linear_chain import LinearChain, logit_gradient  # noqa: E402
from auxo.training.kernels.match_sequential import Chain, match_sequential  # noqa: E402
from auxo.training.kernels.stacked_module import StackedModule, stack_module  # noqa: E402
from auxo.training.torch_trainer import TorchTrainer  # noqa: E402
from tests.training.unusual_modules import (  # noqa: E402
    InPieces,
    LinkUsedTwice,
    Net,
    SkipConnection,
    UnusedLayer,
    with_dropout,
)

FEATURES = 64


def chain_of(module: nn.Module) -> Chain | None:
    stacked = stack_module(module)
    assert isinstance(stacked, StackedModule)
    return match_sequential(module, stacked.module)


class ByHand(nn.Module):
    """A chain that no container holds, with a layer that nobody uses."""

    def __init__(self) -> None:
        super().__init__()
        self.last, self.unused = nn.Linear(7, CLASSES, bias=False), nn.Linear(3, 3)
        self.first, self.rectify, self.flat = nn.Linear(FEATURES, 7), nn.ReLU(), nn.Flatten()

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.last(self.rectify(self.first(self.flat(x))))
        return logits


CHAINS: dict[str, tuple[Callable[[], nn.Module], int, tuple[str, ...]]] = {
    "one layer": (lambda: nn.Sequential(nn.Linear(FEATURES, CLASSES)), 1, ("0",)),
    "mlp": (lambda: Mlp(FEATURES, CLASSES, hidden=12), 2, ("layers.1",)),
    "by hand": (ByHand, 2, ("first",)),
    "no bias and no activation": (
        lambda: nn.Sequential(
            nn.Identity(),
            nn.Linear(FEATURES, 9, bias=False),
            nn.ReLU(),
            nn.Linear(9, 8),
            nn.Linear(8, 6, bias=False),
            nn.ReLU(),
            nn.Linear(6, CLASSES),
        ),
        4,
        ("1",),
    ),
}
SETTINGS = {
    "plain": LocalTraining(learning_rate=0.01, batch_size=4),
    "weight decay": LocalTraining(learning_rate=0.01, batch_size=6, weight_decay=0.1),
    "momentum": LocalTraining(learning_rate=0.01, batch_size=6, momentum=0.9),
    "momentum and decay": LocalTraining(learning_rate=0.01, batch_size=5, epochs=2, momentum=0.9, weight_decay=0.1),
    "proximal": LocalTraining(learning_rate=0.01, batch_size=4, epochs=2, proximal=5.0),
    "proximal, momentum and decay": LocalTraining(0.01, 5, momentum=0.9, weight_decay=0.1, proximal=2.0),
}


@pytest.mark.parametrize("name", CHAINS)
def test_chain_is_found_with_all_its_layers(name: str) -> None:
    factory, layers, _ = CHAINS[name]
    chain = chain_of(factory())

    assert isinstance(chain, LinearChain)
    assert len(chain.layers) == layers


@pytest.mark.parametrize("training", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("is_deferred", [False, True], ids=["at every step", "deferred"])
@pytest.mark.parametrize("name", CHAINS)
def test_chain_trains_as_one_by_one(name: str, is_deferred: bool, training: LocalTraining) -> None:
    factory, _, deferred = CHAINS[name]
    data = population((FEATURES,))
    jobs = all_jobs(data)
    plan = BatchingPlan("stacked", 5, Stacking(deferred if is_deferred else (), is_sequential=True))

    found = updates(TorchTrainer(factory, batching=plan), data, jobs, training)

    assert largest_difference(found, updates(TorchTrainer(factory), data, jobs, training)) < 1e-4


@pytest.mark.parametrize(
    "module",
    [
        Net(),
        SkipConnection(),
        LinkUsedTwice(),
        InPieces(8),
        with_dropout(0.5),
        nn.Sequential(nn.Linear(FEATURES, CLASSES), nn.ReLU()),
        nn.Sequential(nn.ReLU(), nn.Linear(FEATURES, CLASSES)),
        nn.Sequential(nn.Linear(FEATURES, 8), nn.Tanh(), nn.Linear(8, CLASSES)),
        nn.Sequential(nn.Linear(FEATURES, 8), nn.LayerNorm(8), nn.Linear(8, CLASSES)),
        nn.Sequential(nn.Linear(FEATURES, 8), nn.Linear(8, CLASSES).requires_grad_(False)),
        UnusedLayer(),
    ],
    ids=lambda module: type(module).__name__,
)
def test_whatever_does_more_is_no_chain(module: nn.Module) -> None:
    assert chain_of(module) is None


def test_errors_are_the_gradient_of_each_participants_mean_cross_entropy() -> None:
    logits = torch.linspace(-2, 3, 15).view(5, 3).requires_grad_()
    labels = torch.tensor([0, 2, 1, 1, 0])
    shares = torch.tensor([0.5, 0.5, 0.0, 1.0, 0.0])  # two samples of one, one of another, and padding

    losses = nn.functional.cross_entropy(logits, labels, reduction="none")
    (expected,) = torch.autograd.grad((losses[:2].mean() + losses[3]), logits)

    torch.testing.assert_close(logit_gradient(logits.detach(), labels, shares), expected, rtol=0, atol=1e-6)
