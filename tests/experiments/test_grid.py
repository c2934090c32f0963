"""Grids: axes as they are written, every combination a cell, folders that no two share."""

from collections.abc import Sequence

import pytest

from auxo.experiments.config import Config
from auxo.experiments.config_file import ConfigError, parse_config
from auxo.experiments.grid import GridAxis, make_cells, parse_axis


def load(overrides: Sequence[str]) -> Config:
    return parse_config("", overrides)


def test_every_combination_is_a_cell_with_its_own_configuration_and_folder() -> None:
    axes = (GridAxis("training.aggregator", ("fedavg", "fedyogi")), GridAxis("training.personaliser", ("none", "ftfa")))
    cells = make_cells(axes, load)
    assert [cell.choices for cell in cells] == [
        ("fedavg", "none"), ("fedavg", "ftfa"), ("fedyogi", "none"), ("fedyogi", "ftfa"),
    ]  # fmt: skip
    assert cells[1].name == "aggregator-fedavg_personaliser-ftfa"
    training = cells[3].config.training
    assert (training.aggregator, training.personaliser) == ("fedyogi", "ftfa")


def test_without_axes_there_is_the_one_configuration_in_the_folder_itself() -> None:
    (cell,) = make_cells((), load)
    assert (cell.choices, cell.name, cell.config) == ((), "", Config())


def test_commas_in_brackets_and_quotes_belong_to_a_value() -> None:
    assert parse_axis("population.groups=[3.0, 1.0],4").values == ("[3.0, 1.0]", "4")
    assert parse_axis('name="a,b",c').values == ('"a,b"', "c")
    assert parse_axis(" training.rounds = 5 , 6 ") == GridAxis("training.rounds", ("5", "6"))


@pytest.mark.parametrize("text", ["training.rounds", "=5", "training.rounds=", "training.rounds=5,,6"])
def test_what_is_no_axis_is_told_how_one_is_written(text: str) -> None:
    with pytest.raises(ConfigError, match=r"expected section\.key=value,value, such as training\.aggregator"):
        parse_axis(text)


def test_a_value_or_an_axis_that_is_given_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected every value once, got 5, 5"):
        parse_axis("training.rounds=5,5")
    with pytest.raises(ConfigError, match=r"--grid training\.rounds: expected once"):
        make_cells((GridAxis("training.rounds", ("5",)), GridAxis("training.rounds", ("6",))), load)


def test_seeds_are_no_axis() -> None:
    with pytest.raises(ConfigError, match="use --seeds"):
        make_cells((GridAxis("seed", ("1", "2")),), load)


def test_values_that_would_share_a_folder_are_refused() -> None:
    with pytest.raises(ConfigError, match="values that differ in letters and digits"):
        make_cells((GridAxis("population.groups", ("[3.0, 1.0]", "[3.0,1.0]")),), load)


def test_a_value_that_cannot_be_used_is_named() -> None:
    with pytest.raises(ConfigError, match=r'expected an aggregator .* got "fedavgg"; did you mean "fedavg"'):
        make_cells((GridAxis("training.aggregator", ("fedavgg",)),), load)
