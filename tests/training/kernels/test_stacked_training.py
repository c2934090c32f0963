from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.core.asking import Ask
from auxo.core.rng import stream
from auxo.core.types import Float32Array
from auxo.training.trainer import Job, LocalTraining
from tests.training.side_by_side import CLASSES, all_jobs, largest_difference, population, updates

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

from auxo.models.small_models import LeafCnn, Mlp, SmallCnn  # noqa: E402
from auxo.training.batching import BatchingPlan  # noqa: E402
from auxo.training.kernels import Stacking  # noqa: E402
from auxo.training.torch_trainer import TorchTrainer  # noqa: E402

FLAT, IMAGE = (24,), (2, 6, 7)  # an image has sides of which one is odd
AT_ONCE = 5  # jobs, so that a chunk may be smaller than another


class Tokens(nn.Module):
    """An embedding of numbers made from the inputs, some of them more than once in a sample."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(7, 6)
        self.classify = nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        tokens = (x.abs() * 3).long().clamp(max=6)
        logits: Tensor = self.classify(torch.tanh(self.table(tokens)).mean(dim=1))
        return logits


def on_image(*layers: nn.Module) -> nn.Module:
    """The layers, then as many logits as there are classes, whatever comes out of them."""
    body = nn.Sequential(*layers)
    with torch.no_grad():
        width = body(torch.zeros(1, *IMAGE)).numel()
    return nn.Sequential(body, nn.Flatten(), nn.Linear(width, CLASSES))


class Frames(nn.Module):
    """A convolution of the two channels one after the other: a row of its inputs is no sample."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Conv2d(2, 2, 1)
        self.filters = nn.Conv2d(1, 3, 3, padding=1)
        self.classify = nn.Linear(3 * 6 * 7, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        frames = torch.tanh(self.filters(self.mix(x).reshape(-1, 1, 6, 7)))
        logits: Tensor = self.classify(frames.reshape(len(x), 2, -1).mean(dim=1))
        return logits


FLAT_MODULES: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Linear(24, CLASSES),
    "linear without bias": lambda: nn.Linear(24, CLASSES, bias=False),
    "linear in the middle": lambda: nn.Sequential(nn.Linear(24, 12), nn.Tanh(), nn.Linear(12, CLASSES, bias=False)),
    "linear over tokens": lambda: nn.Sequential(
        nn.Unflatten(1, (4, 6)), nn.Linear(6, 8), nn.ReLU(), nn.Flatten(), nn.Linear(32, CLASSES)
    ),
    "layer norm": lambda: nn.Sequential(nn.Linear(24, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, CLASSES)),
    "layer norm over tokens": lambda: nn.Sequential(
        nn.Unflatten(1, (4, 6)), nn.LayerNorm(6), nn.Tanh(), nn.Flatten(), nn.Linear(24, CLASSES)
    ),
    "layer norm of two dimensions": lambda: nn.Sequential(
        nn.Unflatten(1, (4, 6)), nn.LayerNorm((4, 6)), nn.Flatten(), nn.Linear(24, CLASSES)
    ),
    "layer norm without weights": lambda: nn.Sequential(
        nn.LayerNorm(24, elementwise_affine=False), nn.Linear(24, CLASSES)
    ),
    "group norm of features": lambda: nn.Sequential(nn.Linear(24, 8), nn.GroupNorm(2, 8), nn.Linear(8, CLASSES)),
    "embedding": Tokens,
}
IMAGE_MODULES: dict[str, Callable[[], nn.Module]] = {
    "conv of few inputs": lambda: on_image(nn.Conv2d(2, 5, 3)),
    "conv with stride and padding": lambda: on_image(nn.Conv2d(2, 5, 3, stride=2, padding=1)),
    "conv of an oblong": lambda: on_image(nn.Conv2d(2, 5, (3, 2), stride=(2, 1), padding=(0, 1))),
    "conv without bias": lambda: on_image(nn.Conv2d(2, 5, 3, bias=False)),
    "conv of many inputs": lambda: on_image(nn.Conv2d(2, 4, 6, padding=2)),
    "conv in groups": lambda: on_image(nn.Conv2d(2, 6, 3, groups=2)),
    "dilated conv": lambda: on_image(nn.Conv2d(2, 5, 2, dilation=2, padding=1)),
    "conv padded to the same side": lambda: on_image(nn.Conv2d(2, 5, 3, padding="same")),
    "conv padded nowhere": lambda: on_image(nn.Conv2d(2, 5, 3, padding="valid")),
    "conv after conv": lambda: on_image(
        nn.Conv2d(2, 4, 3, padding=1), nn.Tanh(), nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2, bias=False)
    ),
    "conv of frames": Frames,
    "pool": lambda: on_image(nn.Conv2d(2, 4, 1), nn.MaxPool2d(2)),
    "pool of an even image": lambda: on_image(nn.Conv2d(2, 4, (1, 2)), nn.MaxPool2d((2, 2), stride=2)),
    "overlapping pool": lambda: on_image(nn.Conv2d(2, 4, 1), nn.MaxPool2d(3, stride=2, padding=1)),
    "pool of the inputs": lambda: on_image(nn.MaxPool2d(2), nn.Conv2d(2, 4, 2)),
    "group norm of images": lambda: on_image(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.ReLU()),
    "group norm of the inputs": lambda: on_image(nn.GroupNorm(1, 2), nn.Tanh()),
    "group norm without weights": lambda: on_image(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4, affine=False)),
    "layer norm of images": lambda: on_image(nn.Conv2d(2, 4, 3), nn.LayerNorm((4, 4, 5))),
}
MODULES = {name: (factory, FLAT) for name, factory in FLAT_MODULES.items()} | {
    name: (factory, IMAGE) for name, factory in IMAGE_MODULES.items()
}
SETTINGS = {
    "plain": LocalTraining(learning_rate=0.01, batch_size=4),
    "weight decay": LocalTraining(learning_rate=0.01, batch_size=6, weight_decay=0.1),
    "momentum and decay": LocalTraining(learning_rate=0.01, batch_size=5, epochs=2, momentum=0.9, weight_decay=0.1),
    "proximal": LocalTraining(learning_rate=0.01, batch_size=4, epochs=2, proximal=5.0),
    "proximal, momentum and decay": LocalTraining(0.01, 5, momentum=0.9, weight_decay=0.1, proximal=2.0),
}


def stacked(factory: Callable[[], nn.Module], at_once: int = AT_ONCE) -> TorchTrainer:
    return TorchTrainer(factory, batching=BatchingPlan("stacked", at_once))


@pytest.mark.parametrize("training", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize(("factory", "features"), MODULES.values(), ids=MODULES)
def test_participants_train_together_as_one_by_one(
    factory: Callable[[], nn.Module], features: tuple[int, ...], training: LocalTraining
) -> None:
    data = population(features)
    jobs = all_jobs(data)

    found = updates(stacked(factory), data, jobs, training)

    assert largest_difference(found, updates(TorchTrainer(factory), data, jobs, training)) < 1e-4


@pytest.mark.parametrize(("factory", "features"), MODULES.values(), ids=MODULES)
def test_layer_is_stacked_when_the_way_is_chosen(factory: Callable[[], nn.Module], features: tuple[int, ...]) -> None:
    plan = TorchTrainer(factory).suited_to(population(features)).batching

    assert (plan.kind, plan.stacking.deferred, plan.note) == ("stacked", (), None)
    assert plan.at_once > 1


def small_net() -> nn.Module:
    return on_image(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.Tanh(), nn.MaxPool2d(2))


@given(
    counts=st.lists(st.integers(0, 9), min_size=1, max_size=5).filter(any),
    training=st.builds(
        LocalTraining,
        learning_rate=st.just(0.01),
        batch_size=st.integers(1, 5),
        epochs=st.integers(1, 2),
        momentum=st.sampled_from([0.0, 0.9]),
        weight_decay=st.sampled_from([0.0, 0.1]),
    ),
    folds=st.lists(st.sampled_from([None, 0, 1]), min_size=5, max_size=5),
    at_once=st.integers(1, 6),
)
@settings(max_examples=20)
def test_any_jobs_train_together_as_one_by_one(
    counts: list[int], training: LocalTraining, folds: list[int | None], at_once: int
) -> None:
    data = population(IMAGE, counts)
    jobs = [Job(row, visit=row, ask=Ask(fold=folds[row])) for row in range(len(counts))]

    found = updates(stacked(small_net, at_once), data, jobs, training)

    assert largest_difference(found, updates(TorchTrainer(small_net), data, jobs, training)) < 1e-4


# The same bits.


class WithNorms(nn.Module):
    """Layers of many kinds, on images."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(2, 5, 3, padding=1),
            nn.GroupNorm(1, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(5, 6, 2, bias=False),
            nn.Flatten(),
            nn.LayerNorm(24),
            nn.Linear(24, 15),
            nn.Tanh(),
            nn.Linear(15, CLASSES),
        )

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.layers(x)
        return logits


ODD = 33  # hidden units: rows of such matrices do not begin at round places in memory
SAME_BITS: dict[str, tuple[Callable[[], nn.Module], BatchingPlan, tuple[int, ...]]] = {
    "deferred chain": (
        partial(Mlp, 64, CLASSES),
        BatchingPlan("stacked", 8, Stacking(("layers.1",), is_sequential=True)),
        (64,),
    ),
    "chain": (partial(Mlp, 64, CLASSES), BatchingPlan("stacked", 8, Stacking(is_sequential=True)), (64,)),
    "deferred mlp": (partial(Mlp, 64, CLASSES), BatchingPlan("stacked", 8, Stacking(("layers.1",))), (64,)),
    "mlp": (partial(Mlp, 64, CLASSES), BatchingPlan("stacked", 8), (64,)),
    "deferred chain of odd sizes": (
        partial(Mlp, 49, CLASSES, ODD),
        BatchingPlan("stacked", 8, Stacking(("layers.1",), is_sequential=True)),
        (7, 7),
    ),
    "chain of odd sizes": (
        partial(Mlp, 49, CLASSES, ODD),
        BatchingPlan("stacked", 8, Stacking(is_sequential=True)),
        (7, 7),
    ),
    "deferred mlp of odd sizes": (
        partial(Mlp, 49, CLASSES, ODD),
        BatchingPlan("stacked", 8, Stacking(("layers.1",))),
        (7, 7),
    ),
    "mlp of odd sizes": (partial(Mlp, 49, CLASSES, ODD), BatchingPlan("stacked", 8), (7, 7)),
    "one hidden unit": (partial(Mlp, 40, CLASSES, 1), BatchingPlan("stacked", 8), (40,)),
    "cnn": (partial(SmallCnn, 8, CLASSES), BatchingPlan("stacked", 8), (8, 8)),
    "chain of images": (
        partial(SmallCnn, 8, CLASSES),
        BatchingPlan("stacked", 8, Stacking(is_sequential=True)),
        (8, 8),
    ),
    "chain of odd images": (
        partial(LeafCnn, 9, CLASSES, hidden=ODD),
        BatchingPlan("stacked", 8, Stacking(is_sequential=True)),
        (9, 9),
    ),
    "cnn of an odd side": (partial(SmallCnn, 9, CLASSES, 3), BatchingPlan("stacked", 8), (3, 9, 9)),
    "norms": (WithNorms, BatchingPlan("stacked", 8), IMAGE),
    "embedding": (Tokens, BatchingPlan("stacked", 8), FLAT),
}


@pytest.mark.parametrize("batch_size", [1, 6, 7])
@pytest.mark.parametrize(("factory", "plan", "features"), SAME_BITS.values(), ids=SAME_BITS)
def test_update_has_the_same_bits_whatever_the_other_jobs_are(
    factory: Callable[[], nn.Module], plan: BatchingPlan, features: tuple[int, ...], batch_size: int
) -> None:
    data = population(features, counts=(7, 1, 0, 11, 4))
    trainer = TorchTrainer(factory, batching=plan)
    jobs = all_jobs(data)
    training = LocalTraining(learning_rate=0.01, batch_size=batch_size)
    alone = [
        delta.tobytes() for delta in updates(replace(trainer, batching=replace(plan, at_once=1)), data, jobs, training)
    ]

    for at_once in (3, len(jobs)):
        order = stream(at_once, "order").permutation(len(jobs))
        together = replace(trainer, batching=replace(plan, at_once=at_once))
        found = updates(together, data, [jobs[place] for place in order], training)
        differing = [jobs[place] for place, delta in zip(order, found, strict=True) if delta.tobytes() != alone[place]]
        assert differing == [], f"of {len(jobs)} jobs, {at_once} at once"


@pytest.mark.parametrize("name", ["deferred chain", "chain", "deferred mlp", "mlp", "cnn", "chain of images", "norms"])
def test_updates_are_where_they_were_asked_for_with_the_same_bits(name: str) -> None:
    factory, plan, features = SAME_BITS[name]
    data = population(features)
    trainer, jobs = TorchTrainer(factory, batching=plan), all_jobs(data)
    weights = trainer.initial_weights(7)
    room = np.full((len(jobs) + 2, trainer.n_params), np.nan, dtype=np.float32)
    out = room[1:-1]

    found = list(trainer.train(weights, data, jobs, LocalTraining(), seed=3, out=out))
    expected = updates(trainer, data, jobs, LocalTraining())

    assert out.tobytes() == expected.tobytes()
    assert np.isnan(room[[0, -1]]).all()
    for answer, row in zip(found, out, strict=True):
        assert np.shares_memory(answer.update, row)
        assert answer.update.tobytes() == row.tobytes()


def full_of_nan(maker: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def make(*given: Any, **options: Any) -> Tensor:
        made = maker(*given, **options)
        return made.fill_(torch.nan if made.is_floating_point() else 0x7FC00000)  # the bits of such a number

    return make


@pytest.mark.parametrize("name", ["deferred chain", "chain", "deferred mlp", "mlp", "cnn", "chain of images", "norms"])
def test_memory_that_nobody_has_written_to_is_not_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    factory, plan, features = SAME_BITS[name]
    data = population(features)
    trainer, jobs = TorchTrainer(factory, batching=plan), all_jobs(data)
    expected = updates(trainer, data, jobs, LocalTraining())

    for owner, maker in ((torch, torch.empty), (torch, torch.empty_like), (Tensor, Tensor.new_empty)):
        monkeypatch.setattr(owner, maker.__name__, full_of_nan(maker))

    assert updates(trainer, data, jobs, LocalTraining()).tobytes() == expected.tobytes()


# Participants and their neighbours.


@pytest.mark.parametrize("training", [LocalTraining(), LocalTraining(momentum=0.9, weight_decay=0.1)], ids=str)
@pytest.mark.parametrize("name", ["deferred chain", "chain", "deferred mlp", "mlp", "cnn", "chain of images", "norms"])
def test_diverging_participant_does_not_touch_its_neighbours(name: str, training: LocalTraining) -> None:
    factory, plan, features = SAME_BITS[name]
    data = population(features)
    broken = 3  # has most samples, so it comes first among those that train together
    x = data.x.copy()
    x[data.train.of(broken)] = np.inf
    trainer, jobs = TorchTrainer(factory, batching=plan), all_jobs(data)

    found = updates(trainer, replace(data, x=x), jobs, training)
    expected = updates(trainer, data, jobs, training)

    for job, delta, sound in zip(jobs, found, expected, strict=True):
        if job.client_row == broken:
            assert not np.isfinite(delta).all()
        else:
            assert delta.tobytes() == sound.tobytes()


@pytest.mark.parametrize("name", ["deferred chain", "deferred mlp", "cnn"])
def test_those_without_samples_do_not_move(name: str) -> None:
    factory, plan, features = SAME_BITS[name]
    trainer, data = TorchTrainer(factory, batching=plan), population(features)
    jobs = [Job(2, 0), Job(2, 1, Ask(fold=0))]
    out = np.full((2, trainer.n_params), np.nan, dtype=np.float32)

    found = list(trainer.train(trainer.initial_weights(7), data, jobs, LocalTraining(weight_decay=0.1), 3, out))

    assert [answer.examples for answer in found] == [0, 0]
    np.testing.assert_array_equal(out, np.zeros_like(out))


def test_pool_of_equal_numbers_trains_as_one_by_one() -> None:
    data = population(IMAGE)
    plain = TorchTrainer(IMAGE_MODULES["pool"])
    weights = plain.initial_weights(7)
    weights[: 4 * 2 + 4] = 0.0  # the convolution: all it gives out is equal, what it takes in is not
    jobs = [Job(row, 0) for row in range(data.n_clients)]

    def of(trainer: TorchTrainer) -> Float32Array:
        return np.stack([answer.update for answer in trainer.train(weights, data, jobs, LocalTraining(0.01), seed=3)])

    assert largest_difference(of(stacked(IMAGE_MODULES["pool"])), of(plain)) < 1e-4
