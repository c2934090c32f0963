"""The configurations that come with Auxo: each loads under its name, and is one to compare with."""

from pathlib import Path

import pytest

from auxo.datasets.natural_clients import NATURAL_DATASETS
from auxo.experiments.config_file import load_config
from auxo.experiments.references import reference_names
from auxo.experiments.refusals import refusals

FOLDER = Path(__file__).parents[2] / "src" / "auxo" / "experiments" / "reference"


def test_every_file_is_a_reference() -> None:
    assert reference_names() == tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))
    assert reference_names()


@pytest.mark.parametrize("name", reference_names())
def test_a_reference_loads_by_its_name_and_compares_auxo_with_the_base(name: str) -> None:
    config = load_config(Path(name))
    assert config.name == name
    assert {"base", "auxo"} <= set(config.methods)
    if name != "clustered-small":  # which draws its clients
        assert config.population.source == "natural"
        assert config.population.dataset in NATURAL_DATASETS


def test_the_protocol_for_clustered_methods_has_no_traces_and_cfl_has_everybody_of_about_100() -> None:
    full, small = load_config(Path("clustered")), load_config(Path("clustered-small"))
    assert {"fl+hc", "flexcfl", "ifca"} <= set(full.methods)
    assert "cfl" in small.methods
    assert small.population.clients == small.training.participants == 100
    for config in (full, small):
        assert refusals(config.methods, config, 100) == {}
        assert config.devices.availability == "always"


def test_a_file_of_the_same_name_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = reference_names()[0]
    Path(name).write_text('name = "mine"\n', encoding="utf-8")
    assert load_config(Path(name)).name == "mine"
