import sys
from dataclasses import dataclass, replace

import numpy as np
import pytest

from auxo.core.layers import units_of
from auxo.models.catalogue import MODELS, ModelArgument, inputs_of, make_trainer
from auxo.testing import separable_population, trainers
from auxo.testing.contract import Check
from auxo.testing.trainers import TrainerTrial
from auxo.training.trainer import Batching, LocalTraining
from tests.models.token_windows import token_population

CLASSES, SIDE = 4, 8  # of the population that numbers are learnt from


@dataclass(frozen=True)
class Enough:
    """What a model needs to learn its population."""

    rounds: int
    training: LocalTraining


# Deep models of images keep the contract, too, in files of their own: they are large.
DEEP = {"resnet18", "resnet34", "mobilenet-v2", "shufflenet-v2"}
CONTRACT = {
    "softmax": Enough(5, LocalTraining()),
    "linear": Enough(5, LocalTraining()),
    "mlp": Enough(5, LocalTraining()),
    "cnn": Enough(7, LocalTraining()),
    "leaf-cnn": Enough(7, LocalTraining(learning_rate=0.1)),
    "window-mlp": Enough(5, LocalTraining()),
    "char-lstm": Enough(20, LocalTraining(learning_rate=1.0)),
    "char-transformer": Enough(7, LocalTraining(learning_rate=0.2)),
    "albert": Enough(10, LocalTraining(learning_rate=0.1)),
}
NEEDS = {"softmax": "numpy", "albert": "transformers"}  # all others: torch


DATA, TOKENS = separable_population(), token_population()


@pytest.fixture(params=CONTRACT, scope="module")
def trial(request: pytest.FixtureRequest) -> TrainerTrial:
    model = str(request.param)
    pytest.importorskip(NEEDS.get(model, "torch"))
    data, enough = TOKENS if inputs_of(model) == "tokens" else DATA, CONTRACT[model]
    return TrainerTrial(make_trainer(model, data), data, enough.rounds, enough.training)


@pytest.mark.parametrize("check", trainers.CONTRACT.checks, ids=lambda check: check.name)
def test_models_keep_the_contract_of_trainers(check: Check[TrainerTrial], trial: TrainerTrial) -> None:
    check(trial)


# The registry.


@pytest.mark.parametrize(("name", "meant"), [("mobilenet", 'did you mean "mobilenet-v2"'), ("qqqq", 'got "qqqq"$')])
def test_unknown_model_is_refused_with_the_known_ones(name: str, meant: str) -> None:
    known = "expected one of softmax, linear, mlp, cnn, .*, albert, or a module of your own as .*"
    with pytest.raises(ValueError, match=known + meant):
        make_trainer(name, DATA)


def test_every_model_keeps_the_contract() -> None:
    assert {*CONTRACT, *DEEP} == set(MODELS)


@pytest.mark.parametrize("model", [name for name in MODELS if inputs_of(name) != "tokens"])
def test_model_of_numbers_refuses_tokens_and_says_which_models_fit(model: str) -> None:
    fitting = "choose one of window-mlp, char-lstm, char-transformer, albert$"
    with pytest.raises(ValueError, match=f'"{model}" takes .*, got tokens of a text .*; {fitting}'):
        make_trainer(model, TOKENS)


@pytest.mark.parametrize("model", [name for name in MODELS if inputs_of(name) == "tokens"])
def test_model_of_language_refuses_numbers_and_says_which_models_fit(model: str) -> None:
    with pytest.raises(
        ValueError, match=f'"{model}" takes tokens, got numbers; choose one of softmax, linear, mlp, cnn'
    ):
        make_trainer(model, DATA)


@pytest.mark.parametrize(
    ("model", "units"),
    [
        ("softmax", [(CLASSES, SIDE * SIDE + 1)]),
        ("mlp", [(64, SIDE * SIDE + 1), (CLASSES, 65)]),
        ("cnn", [(16, 10), (32, 16 * 9 + 1), (CLASSES, 32 * 4 + 1)]),
    ],
)
def test_every_parameter_of_a_model_belongs_to_a_unit(model: str, units: list[tuple[int, int]]) -> None:
    pytest.importorskip("torch")
    trainer = make_trainer(model, DATA)
    found = units_of(trainer.layers)
    assert [(one.count, one.size) for one in found] == units
    assert sum(one.count * one.size for one in found) == trainer.n_params


@pytest.mark.parametrize(
    ("model", "arguments", "parameters"),
    [
        ("mlp", {"hidden": 200}, 200 * (SIDE * SIDE + 1) + CLASSES * 201),
        ("leaf-cnn", {"hidden": 7}, 32 * 26 + 64 * (32 * 25 + 1) + 7 * (64 * 4 + 1) + CLASSES * 8),
        ("cnn", {}, 16 * 10 + 32 * (16 * 9 + 1) + CLASSES * (32 * 4 + 1)),
    ],
)
def test_sizes_of_a_model_can_be_set(model: str, arguments: dict[str, ModelArgument], parameters: int) -> None:
    pytest.importorskip("torch")
    assert make_trainer(model, DATA, "one-by-one", arguments).n_params == parameters


@pytest.mark.parametrize(
    ("model", "arguments", "message"),
    [
        ("mlp", {"hiden": 200}, "model_args: expected one of hidden, got hiden"),
        ("cnn", {"hidden": 200}, "model_args: expected none, as cnn has nothing to set, got hidden"),
        ("softmax", {"hidden": 200}, "model_args: expected none, as softmax has nothing to set, got hidden"),
        ("mlp", {"hidden": 0}, "hidden: expected a whole number of at least 1, got 0"),
        ("mlp", {"hidden": "many"}, "hidden: expected a whole number of at least 1, got 'many'"),
        ("mlp", {"hidden": True}, "hidden: expected a whole number of at least 1, got True"),
        ("leaf-cnn", {"hidden": 1.5}, "hidden: expected a whole number of at least 1, got 1.5"),
        ("resnet18", {"blocks": [1, 1]}, "blocks: expected 4 numbers, one for each stage"),
        ("mlp", {"classes": 3}, r"expected logits of shape \(3, 4\) .* got \(3, 3\)"),
    ],
)
def test_arguments_that_a_model_cannot_use_are_refused(
    model: str, arguments: dict[str, ModelArgument], message: str
) -> None:
    pytest.importorskip("torch")
    with pytest.raises(ValueError, match=message):
        make_trainer(model, DATA, model_args=arguments)


@pytest.mark.parametrize("batching", ["stacked", "vmap", "one-by-one"])
def test_participants_train_in_the_way_that_is_asked_for(batching: Batching) -> None:
    pytest.importorskip("torch")
    from auxo.training.torch_trainer import TorchTrainer  # noqa: PLC0415

    trainer = make_trainer("mlp", DATA, batching)

    assert isinstance(trainer, TorchTrainer)
    assert trainer.batching.kind == batching


@pytest.mark.parametrize("features", [(SIDE * SIDE,), (SIDE, SIDE), (1, SIDE, SIDE)])
@pytest.mark.parametrize("model", ["softmax", "mlp", "cnn", "leaf-cnn"])
def test_model_is_made_for_inputs_flat_or_square(model: str, features: tuple[int, ...]) -> None:
    if model != "softmax":
        pytest.importorskip("torch")
    data = replace(DATA, x=DATA.x.reshape(-1, *features))
    trainer = make_trainer(model, data)

    assert trainer.n_params == make_trainer(model, DATA).n_params
    assert trainer.predict(trainer.initial_weights(1), data.inputs(np.arange(len(data.x)))).shape == (len(data.x),)


@pytest.mark.parametrize("model", [name for name in MODELS if name != "softmax"])
def test_missing_torch_is_an_error_that_says_what_to_install(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in ("auxo.models.small_models", "auxo.training.torch_trainer"):
        monkeypatch.delitem(sys.modules, name, raising=False)

    with pytest.raises(ImportError, match=r'"auxo\[torch\]", or choose the model "softmax"'):
        make_trainer(model, TOKENS if inputs_of(model) == "tokens" else DATA)


def test_missing_transformers_are_an_error_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.delitem(sys.modules, "auxo.models.albert", raising=False)

    with pytest.raises(ImportError, match=r'"albert" needs transformers, .* run pip install "auxo\[text\]"$'):
        make_trainer("albert", TOKENS)


def test_softmax_needs_no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)

    assert make_trainer("softmax", DATA).n_params == (SIDE * SIDE + 1) * CLASSES
