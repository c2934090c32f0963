"""Models of language: what they read, how their participants train, and what can be set of them."""

from dataclasses import replace

import numpy as np
import pytest

from auxo.models.catalogue import ModelArgument, make_trainer
from auxo.training.trainer import Job, LocalTraining
from tests.models.token_windows import CLASSES, LENGTH, VOCABULARY, token_population
from tests.training.side_by_side import COUNTS, all_jobs, largest_difference, updates

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from auxo.models.language_models import CharTransformer  # noqa: E402
from auxo.training.batching import ONE_BY_ONE  # noqa: E402
from auxo.training.torch_trainer import TorchTrainer  # noqa: E402

DATA = token_population(COUNTS)
WAYS = {"window-mlp": "stacked", "char-transformer": "stacked", "char-lstm": "one-by-one", "albert": "vmap"}
SMALL: dict[str, dict[str, ModelArgument]] = {
    "window-mlp": {"embedding": 3, "hidden": 5},
    "char-lstm": {"embedding": 3, "hidden": 5, "layers": 2},
    "char-transformer": {"width": 6, "layers": 1, "heads": 2},
    "albert": {"hidden_size": 6, "layers": 3, "heads": 2, "embedding_size": 4},
}
TRANSFORMER_LAYER = 2 * 2 * 6 + 7 * 18 + 7 * 6 + 7 * 24 + 25 * 6
PARAMETERS = {
    "window-mlp": 3 * VOCABULARY + 5 * (3 * LENGTH + 1) + CLASSES * 6,
    "char-lstm": 3 * VOCABULARY + 20 * (3 + 5 + 2) + 20 * (5 + 5 + 2) + CLASSES * 6,
    "char-transformer": 6 * (VOCABULARY + LENGTH) + TRANSFORMER_LAYER + 12 + CLASSES * 7,
    # One layer, however often it is passed, and a layer that pools.
    "albert": 4 * (VOCABULARY + LENGTH + 2) + 8 + 5 * 6 + TRANSFORMER_LAYER + 7 * 6 + CLASSES * 7,
}


@pytest.fixture(params=WAYS, scope="module")
def name(request: pytest.FixtureRequest) -> str:
    if request.param == "albert":
        pytest.importorskip("transformers")
    return str(request.param)


@pytest.fixture(scope="module")
def trainer(name: str) -> TorchTrainer:
    trainer = make_trainer(name, DATA)
    assert isinstance(trainer, TorchTrainer)
    return trainer


def test_participants_train_in_the_fastest_way_that_the_layers_allow(name: str, trainer: TorchTrainer) -> None:
    assert trainer.batching.kind == WAYS[name], trainer.batching.note


@pytest.mark.parametrize("training", [LocalTraining(), LocalTraining(momentum=0.9, weight_decay=0.01, batch_size=3)])
def test_updates_are_those_of_training_one_by_one(trainer: TorchTrainer, training: LocalTraining) -> None:
    jobs = all_jobs(DATA)
    expected = updates(replace(trainer, batching=ONE_BY_ONE), DATA, jobs, training)

    assert largest_difference(updates(trainer, DATA, jobs, training), expected) < 1e-4


def test_an_update_has_the_same_bits_whoever_else_trains(trainer: TorchTrainer) -> None:
    jobs = all_jobs(DATA)
    together = updates(trainer, DATA, jobs, LocalTraining())
    alone = np.concatenate([updates(trainer, DATA, [job], LocalTraining()) for job in jobs])

    assert together.tobytes() == alone.tobytes()


def test_sizes_can_be_set(name: str) -> None:
    assert make_trainer(name, DATA, "one-by-one", SMALL[name]).n_params == PARAMETERS[name]


def test_every_token_of_the_window_is_read_and_learned(trainer: TorchTrainer) -> None:
    weights = trainer.initial_weights(3)
    window = np.zeros((1, LENGTH), dtype=np.int32)
    label = np.zeros(1, dtype=np.int64)
    before = trainer.losses(weights, window, label)
    for place in range(LENGTH):
        other = window.copy()
        other[0, place] = VOCABULARY - 1
        assert trainer.losses(weights, other, label) != before


def test_place_of_a_token_matters(trainer: TorchTrainer) -> None:
    weights, label = trainer.initial_weights(3), np.zeros(1, dtype=np.int64)
    window = np.arange(LENGTH, dtype=np.int32)[np.newaxis]
    swapped = window[:, [1, 0, *range(2, LENGTH)]]

    assert trainer.losses(weights, window, label) != trainer.losses(weights, swapped, label)


def test_weights_differ_from_seed_to_seed_and_are_drawn_as_the_layers_draw_them(
    name: str, trainer: TorchTrainer
) -> None:
    first, second = trainer.initial_weights(1), trainer.initial_weights(2)

    assert np.mean(first != second) > 0.8
    if name == "window-mlp":  # torch draws embeddings from the normal distribution
        assert 0.8 < first[: 16 * VOCABULARY].std() < 1.2


def test_a_layer_of_the_transformer_is_that_of_torch() -> None:
    own = CharTransformer(LENGTH, VOCABULARY, CLASSES, width=8, layers=1, heads=2).layers[0]
    theirs = nn.TransformerEncoderLayer(
        8, 2, dim_feedforward=32, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    )
    names = {"norm": "norm1", "ask": "self_attn.in_proj_", "answer": "self_attn.out_proj"}
    names |= {"think.0": "norm2", "think.1": "linear1", "think.3": "linear2"}
    weights = {}
    for name, weight in own.state_dict().items():
        layer, _, kind = name.rpartition(".")
        weights[f"{names[layer]}{'' if layer == 'ask' else '.'}{kind}"] = weight
    theirs.load_state_dict(weights)
    x = torch.linspace(-1, 1, 3 * LENGTH * 8).sin().view(3, LENGTH, 8) * 3

    with torch.no_grad():
        torch.testing.assert_close(own(x), theirs(x))


def test_vocabulary_is_that_of_the_inputs_or_of_the_classes_whichever_is_larger() -> None:
    few = make_trainer("window-mlp", DATA, "one-by-one").n_params
    more_classes = replace(DATA, n_classes=VOCABULARY + 5)

    grown = make_trainer("window-mlp", more_classes, "one-by-one").n_params
    assert grown - few == 5 * 16 + (VOCABULARY + 5 - CLASSES) * 129


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("window-mlp", {"width": 3}, "expected one of embedding, hidden, got width"),
        ("char-lstm", {"layers": 0}, "layers: expected a whole number of at least 1, got 0"),
        ("char-transformer", {"width": 6}, "width: expected a multiple of the 4 heads, got 6"),
    ],
)
def test_sizes_that_make_no_sense_are_refused(name: str, arguments: dict[str, ModelArgument], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_trainer(name, DATA, model_args=arguments)


def test_tokens_that_are_no_windows_are_refused() -> None:
    square = replace(DATA, x=DATA.x.reshape(-1, 2, 3))
    with pytest.raises(ValueError, match=r"expected windows of tokens \(int32\), \(length,\), got tokens of shape"):
        make_trainer("char-lstm", square)


def test_negative_tokens_are_refused() -> None:
    negative = replace(DATA, x=np.where(DATA.x == 3, np.int32(-7), DATA.x))
    with pytest.raises(ValueError, match="expected tokens from 0 on, got -7"):
        make_trainer("window-mlp", negative)


def test_albert_of_the_published_size_has_as_many_weights_as_published() -> None:
    pytest.importorskip("transformers")
    from auxo.models.albert import Albert  # noqa: PLC0415

    base = Albert(512, 30_000, 2, hidden_size=768, layers=12, heads=12, embedding_size=128)

    # ALBERT base, version 2, and a layer for two classes.
    assert sum(weight.numel() for weight in base.parameters()) == 11_683_584 + 2 * 769


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"hidden_size": 6}, "hidden_size: expected a multiple of the 4 heads, got 6"),
        ({"dropout": 1.0}, "dropout: expected at least 0 and less than 1, got 1.0"),
        ({"hidden": 8}, "expected one of hidden_size, layers, heads, embedding_size, dropout, got hidden"),
    ],
)
def test_albert_refuses_what_makes_no_sense(arguments: dict[str, ModelArgument], message: str) -> None:
    pytest.importorskip("transformers")
    with pytest.raises(ValueError, match=message):
        make_trainer("albert", DATA, model_args=arguments)


def test_albert_with_dropout_trains_one_by_one_and_repeatably() -> None:
    pytest.importorskip("transformers")
    trainer = make_trainer("albert", DATA, model_args={"dropout": 0.5})

    assert isinstance(trainer, TorchTrainer)
    assert trainer.batching.kind == "one-by-one"
    assert "draws random numbers" in (trainer.batching.note or "")
    jobs = [Job(0, 0), Job(3, 0)]
    again = updates(trainer, DATA, jobs[::-1], LocalTraining())[::-1]
    np.testing.assert_array_equal(updates(trainer, DATA, jobs, LocalTraining()), again)
