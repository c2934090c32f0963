"""A user's own module by import path: found, fed from the data, checked on a first batch, started as built."""

import sys
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

from auxo.models.catalogue import ModelArgument, make_trainer
from auxo.population.federated_data import FederatedData
from auxo.registry.import_path import load_callable, made_absolute
from auxo.training.trainer import Job, LocalTraining
from tests.models.token_windows import LENGTH, VOCABULARY, token_population
from tests.training.side_by_side import CLASSES, population

torch = pytest.importorskip("torch")

from auxo.models.module_factory import ModuleFactory  # noqa: E402
from auxo.training.torch_trainer import TorchTrainer  # noqa: E402

IMAGES, VECTORS, TOKENS = population((3, 8, 8)), population((6,)), token_population()
NET = """
    from __future__ import annotations

    from dataclasses import dataclass

    import torch
    from torch import nn

    NOT_CALLABLE = 3
    MADE = nn.Linear(6, 4)

    @dataclass
    class Sizes:  # with its annotations as strings it looks for its own module
        hidden: int = 5

    class Net(nn.Module):
        def __init__(self, features, classes, hidden=5, *, bias=True):
            super().__init__()
            self.given = dict(features=features, classes=classes, hidden=hidden, bias=bias)
            self.layers = nn.Sequential(
                nn.Flatten(),
                nn.Linear(torch.Size(features).numel(), hidden, bias=bias),
                nn.ReLU(),
                nn.Linear(hidden, classes),
            )

        def forward(self, x):
            return self.layers(x)

    class Told(nn.Module):
        def __init__(self, **given):
            super().__init__()
            self.given, self.layer = given, nn.Linear(6, 4)

        def forward(self, x):
            return self.layer(x)

    def counting(inputs, n_classes, weight=0.25):
        layer = nn.Linear(inputs, n_classes)
        nn.init.constant_(layer.weight, weight)
        return layer

    def of_images(channels, side, n_classes):
        net = nn.Sequential(nn.Conv2d(channels, n_classes, side), nn.Flatten())
        net.given = dict(channels=channels, side=side, n_classes=n_classes)
        return net

    def of_anything(classes, channels=7, length=9):
        net = nn.Sequential(nn.Flatten(), nn.LazyLinear(classes))
        net(torch.zeros(1, 6))
        net.given = dict(classes=classes, channels=channels, length=length)
        return net

    def of_tokens(length, vocabulary, classes):
        net = nn.Sequential(nn.Embedding(vocabulary, 2), nn.Flatten(), nn.Linear(2 * length, classes))
        net.given = dict(length=length, vocabulary=vocabulary, classes=classes)
        return net

    def with_batch_norm(classes):
        return nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3), nn.Linear(3, classes))

    def narrow():
        return nn.Linear(6, 3)

    def no_module():
        return "a string"

    def needs_more(classes, depth, width):
        return nn.Linear(6, classes)

    def failing(classes):
        raise KeyError("who?")

    class Tuple(Told):
        def forward(self, x):
            return self.layer(x), x

    class Squeezed(Told):
        def forward(self, x):
            return self.layer(x).squeeze()

    class Broken(Told):
        def forward(self, x):
            return self.layers(x)
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory, with the file above in it."""
    (tmp_path / "own_net.py").write_text(dedent(NET), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def own(name: str, data: FederatedData = VECTORS, arguments: dict[str, ModelArgument] | None = None) -> TorchTrainer:
    trainer = make_trainer(f"own_net.py:{name}", data, model_args=arguments)
    assert isinstance(trainer, TorchTrainer)
    return trainer


def given(trainer: TorchTrainer) -> dict[str, object]:
    found = trainer.module_factory().given
    assert isinstance(found, dict)
    return found


@pytest.mark.usefixtures("here")
def test_module_of_a_file_is_fed_from_the_data_and_from_the_arguments() -> None:
    trainer = own("Net", IMAGES, {"hidden": 11, "bias": False})

    assert given(trainer) == {"features": (3, 8, 8), "classes": CLASSES, "hidden": 11, "bias": False}
    assert trainer.n_params == 3 * 64 * 11 + CLASSES * 12
    assert trainer.batching.kind == "stacked"


@pytest.mark.usefixtures("here")
def test_function_is_told_what_it_asks_for() -> None:
    assert given(own("of_images", IMAGES)) == {"channels": 3, "side": 8, "n_classes": CLASSES}
    tokens = {"length": LENGTH, "vocabulary": VOCABULARY, "classes": CLASSES}
    assert given(own("of_tokens", TOKENS)) == tokens


@pytest.mark.usefixtures("here")
def test_what_the_data_do_not_know_stays_at_its_default() -> None:
    assert given(own("of_anything")) == {"classes": CLASSES, "channels": 7, "length": 9}


@pytest.mark.usefixtures("here")
def test_argument_wins_over_what_the_data_know() -> None:
    assert given(own("of_anything", VECTORS, {"length": 2, "channels": 1}))["length"] == 2


@pytest.mark.usefixtures("here")
def test_function_of_any_arguments_gets_those_that_are_given_and_no_others() -> None:
    assert given(own("Told", VECTORS, {"a": [1, 2], "b": "c"})) == {"a": [1, 2], "b": "c"}


def test_module_of_a_package_is_found(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "own_package_of_nets").mkdir()
    (here / "own_net.py").rename(here / "own_package_of_nets" / "nets.py")
    monkeypatch.syspath_prepend(str(here))

    trainer = make_trainer("own_package_of_nets.nets:Net", VECTORS)
    assert trainer.n_params == 5 * 7 + CLASSES * 6


@pytest.mark.usefixtures("here")
def test_weights_start_as_the_module_has_set_them_and_what_is_drawn_follows_the_seed() -> None:
    trainer = own("counting")
    first, second = trainer.initial_weights(1), trainer.initial_weights(2)

    np.testing.assert_array_equal(first[: 6 * CLASSES], 0.25)
    assert not np.array_equal(first[6 * CLASSES :], second[6 * CLASSES :])
    np.testing.assert_array_equal(first, trainer.initial_weights(1))


@pytest.mark.usefixtures("here")
def test_torchs_own_generator_is_left_as_it_was() -> None:
    before = torch.get_rng_state()
    own("Net").initial_weights(1)

    assert torch.equal(torch.get_rng_state(), before)


def test_path_means_the_same_from_another_working_directory(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = own("Net")
    monkeypatch.chdir(here.parent)

    assert trainer.module_factory == ModuleFactory(
        f"{here.resolve() / 'own_net.py'}:Net", {"features": (6,), "classes": CLASSES}
    )
    (answer,) = trainer.train(trainer.initial_weights(1), VECTORS, [Job(0, 0)], LocalTraining(), seed=1)
    assert np.abs(answer.update).max() > 0


@pytest.mark.usefixtures("here")
def test_file_leaves_no_name_behind_that_another_process_would_look_for() -> None:
    before = set(sys.modules)
    factory = load_callable(made_absolute("own_net.py:Net"))

    assert {name for name in set(sys.modules) - before if "own_net" in name} == set()
    assert factory is load_callable(made_absolute("own_net.py:Net"))


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("absent.py:Net", "absent.py: no such file; give its path from the working directory, /"),
        ("own_net.py:Nett", 'expected "Nett" in .*own_net.py, got no such name; did you mean "Net"?'),
        ("own_net.py:Qqqqqqq", "got no such name; it defines Sizes, Net, Told, counting"),
        ("own_net.py:NOT_CALLABLE", "expected a class or a function, got int"),
        ("own_net.py:MADE", "expected a class or a function, got a module; name a function that makes it"),
        ("own_net.py:no_module", "expected a torch.nn.Module, got str; return one"),
        ("own_net.py:needs_more", "needs depth, width, which the data do not know"),
        (
            "own_net.py:failing",
            r"KeyError \('who\?'\) at .*own_net\.py, line \d+, in failing: `raise KeyError\(\"who\?\"\)` "
            "when called with classes = 4; mend it, or set its arguments",
        ),
        ("own_net.py:with_batch_norm", r"1 \(BatchNorm1d\) keeps running statistics.*use nn.GroupNorm"),
        (
            "own_net.py:narrow",
            r"expected logits of shape \(3, 4\) for inputs of shape \(3, 6\), .* got \(3, 3\); a row",
        ),
        ("own_net.py:Tuple", r"expected logits of shape \(3, 4\) .* got tuple; return the logits alone"),
        ("own_net.py:Squeezed", r"expected logits of shape \(1, 4\) .* got \(4,\)"),
        ("own_net.py:Broken", r"expected logits of shape \(3, 4\) .* float32, got AttributeError .*; mend its forward"),
        ("own_net.py:of_images", "needs square images"),
        ("own_net.py:of_tokens", r"expected windows of tokens \(int32\), \(length,\), got numbers of shape \(6,\)"),
        ("no_such_package.nets:Net", 'got none named no_such_package; install it, or name a file .* "nets.py:Name"'),
        ("auxo.no_such_module:Net", "auxo.no_such_module: expected a module, got none named auxo.no_such_module"),
        ("torch.nn:Linear", "model_args: torch.nn:Linear needs in_features, out_features"),
    ],
)
def test_what_cannot_be_used_is_refused_with_what_was_expected(path: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_trainer(path, VECTORS)


@pytest.mark.usefixtures("here")
def test_unknown_argument_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="model_args: expected one of hidden, bias, got hiden"):
        own("Net", VECTORS, {"hiden": 3})


def test_file_or_module_that_fails_names_what_went_wrong(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "broken_net.py").write_text("1 / 0\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(here))

    with pytest.raises(
        ValueError, match=r"broken_net\.py: ZeroDivisionError .* line 1, in <module>: `1 / 0` while it was"
    ):
        make_trainer("broken_net.py:Net", VECTORS)
    with pytest.raises(ValueError, match=r"broken_net: ZeroDivisionError .* line 1, in <module>: `1 / 0` while it was"):
        make_trainer("broken_net:Net", VECTORS)


@pytest.mark.parametrize("path", ["needy_net.py:Net", "needy_net:Net"])
def test_library_that_the_code_lacks_is_named(path: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "needy_net.py").write_text("import no_such_library\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(here))

    with pytest.raises(ImportError, match=r'needs no_such_library, .*: run pip install "no_such_library"'):
        make_trainer(path, VECTORS)
