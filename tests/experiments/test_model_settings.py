"""The settings of the model: by name or import path, with arguments as a TOML table."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.experiments.config import Config, TrainingConfig
from auxo.experiments.config_file import ConfigError, parse_config, to_toml
from auxo.experiments.populations import make_population, trainer_for
from auxo.models.catalogue import MODELS, ModelArgument

SMALL = ["population.clients=4", "training.participants=2", "population.groups=2"]


def test_every_model_can_be_named() -> None:
    assert [TrainingConfig(model=model).model for model in MODELS] == list(MODELS)


def test_an_unknown_model_is_refused_with_the_known_ones_and_the_one_that_was_meant() -> None:
    with pytest.raises(ConfigError) as error:
        parse_config("", ["training.model=mobilenet"])
    assert str(error.value) == (
        f"--set: training.model: expected one of {', '.join(MODELS)}, or a module of your own as "
        '"package.module:Name" or "file.py:Name", got "mobilenet"; did you mean "mobilenet-v2"?'
    )


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["population.source=synthetic", "training.model=char-lstm"], '"char-lstm" needs tokens, but'),
        (["population.source=synthetic", "training.model=resnet34"], '"resnet34" needs images, but'),
        (["training.model=albert"], '"albert" needs tokens of a text, but population.source = "digits" has images'),
        (["training.model=3"], "training.model: expected a string, got 3"),
        (["training.model_args=3"], "--set: training.model_args: expected a table of values, each true or false, a "),
        (["training.model_args.hidden=2024-01-01"], "--set: training.model_args: expected a table of values"),
        (['training.model_args."a b"=1'], "--set: training.model_args: expected a table of values"),
    ],
)
def test_settings_of_the_model_that_cannot_be_are_refused(overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_config("", overrides)
    assert message in str(error.value)


@pytest.mark.parametrize("source", ["digits", "synthetic", "file"])
def test_a_module_of_ones_own_goes_with_every_population(source: str) -> None:
    file = ["population.file=a.npz"] if source == "file" else []
    config = parse_config("", [f"population.source={source}", *file, "training.model=my_package.nets:MyNet"])
    assert config.training.model == "my_package.nets:MyNet"


def test_arguments_come_from_a_table_and_overrides_join_them() -> None:
    text = '[training]\nmodel = "my_net.py:MyNet"\n[training.model_args]\nhidden = 3\nrate = 0.5\nsizes = [1, 2]\n'
    config = parse_config(text, ["training.model_args.hidden=200", "training.model_args.kind=deep"])
    assert config.training.model_args == {"hidden": 200, "rate": 0.5, "sizes": [1, 2], "kind": "deep"}
    assert 'model_args = {hidden = 200, rate = 0.5, sizes = [1, 2], kind = "deep"}\n' in to_toml(config)


def test_a_table_is_explained() -> None:
    assert "[training.model_args]" in to_toml(Config(), explain=True)
    assert "\nmodel_args = {}\n" in to_toml(Config())


scalars = st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8)
arguments = st.dictionaries(
    st.from_regex(r"[A-Za-z_][A-Za-z0-9_]*", fullmatch=True), scalars | st.lists(scalars, max_size=3), max_size=4
)


@settings(deadline=None, max_examples=20)
@given(arguments, st.booleans())
def test_arguments_read_back_from_toml_as_they_were(values: dict[str, ModelArgument], explain: bool) -> None:
    config = Config(training=TrainingConfig(model="mlp", model_args=values))
    found = parse_config(to_toml(config, explain)).training.model_args
    assert found == values
    assert [type(value) for value in found.values()] == [type(value) for value in values.values()]


def test_arguments_reach_the_model() -> None:
    pytest.importorskip("torch")
    config = parse_config("", [*SMALL, "training.model=mlp", "training.model_args.hidden=7"])
    data = make_population(config)
    assert trainer_for(config, data).n_params == 7 * (data.x[0].size + 1) + data.n_classes * 8


def test_a_file_beside_the_configuration_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    (tmp_path / "beside.py").write_text(
        "from torch import nn\n\n\n"
        "def linear(inputs, classes):\n    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, classes))\n"
    )
    monkeypatch.chdir(tmp_path)
    config = parse_config("", [*SMALL, "training.model=beside.py:linear"])
    data = make_population(config)
    assert trainer_for(config, data).n_params == data.n_classes * (data.x[0].size + 1)


def test_arguments_that_the_model_does_not_know_are_refused_by_name() -> None:
    config = parse_config("", [*SMALL, "training.model=mlp", "training.model_args.hiden=7"])
    with pytest.raises(ConfigError, match="cannot be used: model_args: expected one of hidden, got hiden"):
        trainer_for(config, make_population(config))
