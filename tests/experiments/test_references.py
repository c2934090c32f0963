"""The configurations that come with Auxo: each loads under its name, and is one to compare with."""

from pathlib import Path

import pytest

from auxo.experiments.config import Config
from auxo.experiments.config_file import ConfigError, load_config
from auxo.experiments.references import reference_names, reference_text
from auxo.experiments.refusals import refusals

FOLDER = Path(__file__).parents[2] / "src" / "auxo" / "experiments" / "reference"


def loaded(name: str) -> Config:
    """Return a reference with the files that it needs and that are not part of Auxo."""
    text = reference_text(name)
    file = ["population.file=clients.arrow"] if 'source = "file"' in text else []
    trace = ["devices.availability_file=phones.arrow"] if 'availability = "trace"' in text else []
    return load_config(Path(name), [*file, *trace])


def test_every_file_is_a_reference() -> None:
    assert reference_names() == tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))
    assert reference_names()


@pytest.mark.parametrize("name", reference_names())
def test_a_reference_loads_by_its_name_and_compares_auxo_with_the_base(name: str) -> None:
    config = loaded(name)
    assert config.name == name
    assert {"base", "auxo"} <= set(config.methods)


def test_a_reference_of_clients_that_are_not_drawn_asks_for_their_file() -> None:
    with pytest.raises(ConfigError, match=r"population\.file: expected a path .* set it \(--population FILE\)"):
        load_config(Path("writers"))


def test_the_protocol_for_clustered_methods_has_no_traces_and_cfl_has_everybody_of_about_100() -> None:
    full, small = loaded("clustered"), loaded("clustered-small")
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
