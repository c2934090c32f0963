import copy
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest

from auxo.core.asking import Ask
from auxo.training.trainer import Batching, Job, LocalTraining
from tests.training.side_by_side import CLASSES, largest_difference, population, updates

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from auxo.models.small_models import Mlp  # noqa: E402
from auxo.training.batching import ONE_BY_ONE, BatchingPlan  # noqa: E402
from auxo.training.kernels import Stacking  # noqa: E402
from auxo.training.torch_trainer import TorchTrainer  # noqa: E402
from tests.training.unusual_modules import (  # noqa: E402
    CHOICES,
    PIXELS,
    SIDE,
    CentredOnTheBatch,
    Factory,
    InPieces,
    LinkUsedTwice,
    Net,
    OwnLinear,
    OwnParameter,
    SequenceFirst,
    SkipConnection,
    batch_norm_of_images,
    with_dropout,
)

DATA = population((SIDE, SIDE))
JOBS = [Job(row, 0) for row in range(DATA.n_clients)] + [
    Job(0, 1, Ask(fold=0)),
    Job(3, 1, Ask(fold=1)),
    Job(1, 1, Ask(fold=1)),
]
TRAINING = LocalTraining(learning_rate=0.01, batch_size=4)
WITH_DECAY = LocalTraining(learning_rate=0.01, batch_size=4, momentum=0.5, weight_decay=0.1)
WITH_PROXIMAL = LocalTraining(learning_rate=0.01, batch_size=4, epochs=2, proximal=5.0)


CERTAIN = {name: (kind, deferred) for name, (_, kind, deferred) in CHOICES.items() if kind}


@cache
def suited(name: str) -> TorchTrainer:
    return TorchTrainer(CHOICES[name][0]).suited_to(DATA)


@pytest.mark.parametrize("training", [TRAINING, WITH_DECAY, WITH_PROXIMAL], ids=["plain", "decay", "proximal"])
@pytest.mark.parametrize("name", CHOICES)
def test_chosen_way_gives_the_updates_of_one_by_one(name: str, training: LocalTraining) -> None:
    found = updates(suited(name), DATA, JOBS, training)
    expected = updates(TorchTrainer(CHOICES[name][0]), DATA, JOBS, training)

    assert largest_difference(found, expected) < 1e-4


@pytest.mark.parametrize("name", CERTAIN)
def test_fastest_way_that_is_right_is_chosen(name: str) -> None:
    plan = suited(name).batching

    assert (plan.kind, plan.stacking.deferred) == CERTAIN[name]
    assert (plan.at_once > 1) is (plan.kind != "one-by-one")
    assert (plan.note is not None) is (plan.kind == "one-by-one")


def test_plain_chains_of_layers_are_found() -> None:
    assert {name for name in CERTAIN if suited(name).batching.stacking.is_sequential} == {"mlp", "linear", "leaf-cnn"}


def test_layer_used_twice_is_seen_though_the_first_clients_hardly_move_it() -> None:
    data = replace(DATA, x=DATA.x * np.float32(1e-3))
    plain, training = TorchTrainer(LinkUsedTwice), LocalTraining(learning_rate=5.0, batch_size=4)

    found = updates(plain.suited_to(data), DATA, JOBS, training)

    assert largest_difference(found, updates(plain, DATA, JOBS, training)) < 1e-3


@pytest.mark.parametrize("name", CHOICES)
def test_update_has_the_same_bits_in_any_chosen_way(name: str) -> None:
    trainer = suited(name)
    alone = replace(trainer, batching=replace(trainer.batching, at_once=1))

    together = updates(trainer, DATA, JOBS[::-1], LocalTraining())[::-1]
    expected = updates(alone, DATA, JOBS, LocalTraining())

    assert [job for job, a, b in zip(JOBS, together, expected, strict=True) if a.tobytes() != b.tobytes()] == []


@pytest.mark.parametrize("name", CHOICES)
def test_choice_is_the_same_every_time(name: str) -> None:
    updates(suited(name), DATA, JOBS[:2], LocalTraining())

    assert suited(name).suited_to(DATA).batching == suited(name).batching


# Chance.


@pytest.mark.parametrize("share", [0.5, 1e-6])
def test_dropout_means_one_by_one_however_rarely_it_drops(share: float) -> None:
    trainer = TorchTrainer(partial(with_dropout, share))
    with torch.random.fork_rng():
        for _ in range(8):
            torch.rand(1000)  # the choice must not be a matter of luck
            plan = trainer.suited_to(DATA).batching
            assert plan.kind == "one-by-one"
            assert plan.note is not None
            assert "one by one" in plan.note


def test_dropout_of_nothing_does_not_stand_in_the_way() -> None:
    assert TorchTrainer(partial(with_dropout, 0.0)).suited_to(DATA).batching.kind == "stacked"


@pytest.mark.parametrize("name", ["mlp", "own parameter", "batch norm", "lstm"])
def test_choice_leaves_torch_as_it_was(name: str) -> None:
    state, threads = torch.get_rng_state(), torch.get_num_threads()

    TorchTrainer(CHOICES[name][0]).suited_to(DATA)

    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads


def test_choice_with_dropout_leaves_torch_as_it_was() -> None:
    state = torch.get_rng_state()

    TorchTrainer(partial(with_dropout, 0.5)).suited_to(DATA)

    assert torch.equal(torch.get_rng_state(), state)


# What the first clients do not show.


def test_skip_connection_is_seen_though_the_first_clients_have_nothing_in_it() -> None:
    x = DATA.x.copy()
    x[: DATA.train.offsets[-2], 0, :CLASSES] = 0.0  # only the last has something there, as in sparse data
    data = replace(DATA, x=x)
    plain, jobs = TorchTrainer(SkipConnection), JOBS

    found = updates(plain.suited_to(data), data, jobs, TRAINING)

    assert largest_difference(found, updates(plain, data, jobs, TRAINING)) < 1e-4


@pytest.mark.parametrize("factory", [batch_norm_of_images, CentredOnTheBatch])
@pytest.mark.parametrize("counts", [(1, 1, 1, 7, 5), (12, 12, 12, 7)], ids=["one sample each", "full batches only"])
def test_statistics_of_a_batch_are_seen_whatever_batches_the_first_clients_have(
    factory: Factory, counts: tuple[int, ...]
) -> None:
    data = population((SIDE, SIDE), counts)

    assert TorchTrainer(factory).suited_to(data).batching.kind == "one-by-one"


def test_batch_that_is_not_first_is_seen_though_only_one_client_has_samples() -> None:
    data = population((SIDE, SIDE), counts=(0, 13, 0))
    plain = TorchTrainer(SequenceFirst)
    jobs = [Job(1, 0, Ask(fold=0)), Job(1, 0, Ask(fold=1))]

    found = updates(plain.suited_to(data), data, jobs, TRAINING)

    assert largest_difference(found, updates(plain, data, jobs, TRAINING)) < 1e-4


def test_module_that_takes_larger_batches_to_pieces_is_not_silently_wrong() -> None:
    # The batches that a plan is tried on are smaller together.
    trainer = TorchTrainer(partial(InPieces, 32)).suited_to(DATA)
    data = population((SIDE, SIDE), counts=(32, 32))
    jobs, training = [Job(0, 0), Job(1, 0)], LocalTraining(learning_rate=0.01, batch_size=32)

    assert trainer.batching.kind == "stacked"
    with pytest.raises(RuntimeError, match="uses a layer twice"):
        updates(trainer, data, jobs, training)


@pytest.mark.parametrize("name", ["mlp", "cnn", "own parameter"])
def test_clients_without_samples_may_come_first(name: str) -> None:
    data = population((SIDE, SIDE), counts=(0, 0, 0, 0, 9, 1, 5))

    plan = TorchTrainer(CHOICES[name][0]).suited_to(data).batching

    assert plan == TorchTrainer(CHOICES[name][0]).suited_to(DATA).batching


@pytest.mark.parametrize("counts", [(1,), (0, 1), (2,), (1, 1)])
def test_choice_needs_few_samples(counts: tuple[int, ...]) -> None:
    data = population((SIDE, SIDE), counts)

    assert TorchTrainer(partial(Mlp, PIXELS, CLASSES)).suited_to(data).batching.kind == "stacked"


@pytest.mark.parametrize("batching", ["auto", "stacked", "vmap", "one-by-one"])
def test_population_in_which_nobody_has_samples_trains_one_by_one(batching: Batching) -> None:
    data = population((SIDE, SIDE), counts=(0, 0))
    trainer = TorchTrainer(partial(Mlp, PIXELS, CLASSES)).suited_to(data, batching)

    assert trainer.batching == ONE_BY_ONE
    found = list(trainer.train(trainer.initial_weights(7), data, [Job(0, 0), Job(1, 0, Ask(fold=1))], TRAINING, seed=3))
    assert [answer.examples for answer in found] == [0, 0]
    assert not any(answer.update.any() for answer in found)


def test_inputs_that_are_not_finite_are_trained_on_without_a_warning() -> None:
    x = DATA.x.copy()
    x[0] = np.inf
    data = replace(DATA, x=x)
    trainer, jobs = TorchTrainer(partial(Mlp, PIXELS, CLASSES)).suited_to(data), JOBS

    found = updates(trainer, data, jobs, TRAINING)

    assert {job.client_row for job, delta in zip(jobs, found, strict=True) if not np.isfinite(delta).all()} == {0}


# Ways that are asked for by name.


@pytest.mark.parametrize("kind", ["stacked", "vmap", "one-by-one"])
def test_way_that_is_asked_for_is_taken(kind: Batching) -> None:
    plain = TorchTrainer(Net)
    trainer, jobs = plain.suited_to(DATA, kind), JOBS

    assert trainer.batching.kind == kind
    assert trainer.batching.note is None
    difference = largest_difference(updates(trainer, DATA, jobs, TRAINING), updates(plain, DATA, jobs, TRAINING))
    assert difference < 1e-4


@pytest.mark.parametrize(
    ("name", "kind", "why"),
    [
        ("own parameter", "stacked", r"the module \(OwnParameter\) is trainable in part"),
        ("layer used twice", "stacked", "uses a layer twice"),
        ("batch second", "stacked", "updates differ"),
        ("batch norm", "stacked", r"2 \(BatchNorm2d\)"),
        ("batch norm", "vmap", "updates differ"),
        ("centred on the batch", "vmap", "updates differ"),
    ],
)
def test_way_that_does_not_work_is_refused_with_a_reason_and_a_way_out(name: str, kind: Batching, why: str) -> None:
    with pytest.raises(ValueError, match=rf'batching: "{kind}" does not work for this model \(.*{why}.*use "auto"'):
        TorchTrainer(CHOICES[name][0]).suited_to(DATA, kind)


@pytest.mark.parametrize("kind", ["stacked", "vmap"])
def test_dropout_is_refused_by_ways_that_are_asked_for(kind: Batching) -> None:
    with pytest.raises(ValueError, match=rf'batching: "{kind}" does not work .* use "auto"'):
        TorchTrainer(partial(with_dropout, 0.5)).suited_to(DATA, kind)


def test_large_model_is_not_mapped_unless_asked_for() -> None:
    def factory() -> nn.Module:
        return nn.Sequential(
            nn.Flatten(), OwnLinear(PIXELS, 1000), nn.ReLU(), OwnLinear(1000, 1000), OwnLinear(1000, 4)
        )

    trainer = TorchTrainer(factory)

    assert trainer.suited_to(DATA).batching.kind == "one-by-one"
    assert trainer.suited_to(DATA, "vmap").batching.kind == "vmap"


# A plan is a value.


@pytest.mark.parametrize("name", ["mlp", "cnn", "own parameter", "batch norm"])
def test_trainer_may_be_copied_and_replaced_with_the_same_bits(name: str) -> None:
    trainer, jobs = TorchTrainer(CHOICES[name][0]).suited_to(DATA), JOBS
    expected = updates(trainer, DATA, jobs, TRAINING).tobytes()

    for other in (copy.deepcopy(trainer), replace(trainer), TorchTrainer(CHOICES[name][0], batching=trainer.batching)):
        assert other.batching == trainer.batching
        assert updates(other, DATA, jobs, TRAINING).tobytes() == expected


def test_copies_of_a_trainer_have_nothing_in_common() -> None:
    trainer = TorchTrainer(partial(Mlp, PIXELS, CLASSES)).suited_to(DATA)
    other = copy.deepcopy(trainer)
    jobs, weights = JOBS, trainer.initial_weights(7)
    expected = updates(trainer, DATA, jobs, TRAINING)

    one_by_the_other = zip(
        trainer.train(weights, DATA, jobs, TRAINING, seed=3),
        other.train(-weights, DATA, jobs, TRAINING, seed=4),
        strict=True,
    )

    for row, (answer, _) in zip(expected, one_by_the_other, strict=True):
        assert answer.update.tobytes() == row.tobytes()


def test_way_of_another_module_is_refused() -> None:
    with pytest.raises(ValueError, match="module: cannot be stacked"):
        TorchTrainer(OwnParameter, batching=BatchingPlan("stacked", 4))
    with pytest.raises(ValueError, match=r"layers\.1"):
        TorchTrainer(Net, batching=BatchingPlan("stacked", 4, Stacking(("layers.1",))))
