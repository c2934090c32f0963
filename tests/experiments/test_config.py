"""The configuration: what it takes, what it refuses and how it says so, and TOML there and back."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from auxo.algorithms.auxo import Auxo, TrialSettings
from auxo.algorithms.ifca import Ifca
from auxo.core.aggregators import FedAvg
from auxo.experiments.config import Config, DevicesConfig, PopulationConfig, TrainingConfig
from auxo.experiments.config_file import ConfigError, load_config, parse_config, to_toml
from auxo.experiments.parts import AGGREGATORS, CLIENTS, METHODS


def test_an_empty_file_gives_the_defaults() -> None:
    assert parse_config("") == load_config(None) == Config()


def test_a_config_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        Config().seed = 3  # type: ignore[misc]  # the point of the test


def test_values_come_from_the_file_and_overrides_win(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text("seed = 1\n[training]\nrounds = 10\nmodel = 'mlp'\n")
    config = load_config(path, ["training.rounds=20", "training.rounds=30"])
    assert (config.seed, config.training.rounds, config.training.model) == (1, 30, "mlp")


def test_an_override_is_toml_or_else_a_plain_string() -> None:
    config = parse_config("", ["population.groups=[1, 2.5]", "name=my-run", 'training.model="mlp"', "seed = 4"])
    assert config.population.groups == (1.0, 2.5)
    assert (config.name, config.training.model, config.seed) == ("my-run", "mlp", 4)


@pytest.mark.parametrize(
    ("override", "meant"),
    [
        ("training.ruonds=3", "training.rounds"),
        ("population.clinets=3", "population.clients"),
        ("rounds=3", "training.rounds"),
        ("training.evaluate_evry=3", "run.evaluate_every"),
        ("sed=3", "seed"),
        ("trainig.rounds=3", "[training]"),
        ("auxxo.sharing=equal", "[auxo]"),
        ("auxo.trial.mostrounds=3", "auxo.trial.most_rounds"),
        ("auxo.min_gain=0.5", "auxo.trial.min_gain"),
        ("paper.criterion.begin=0.5", "paper.criterion.limits.begin"),
        ("most_rounds=3", "auxo.trial.most_rounds"),
        ("training.rate_scaling=none", "auxo.rate_scaling"),
        ("training.server_learning_rate=1", "fedyogi.server_learning_rate"),
    ],
)
def test_an_unknown_key_suggests_the_right_one(override: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"unknown key; did you mean {meant}?")):
        parse_config("", [override])


def test_an_unknown_key_lists_the_keys_of_its_section() -> None:
    with pytest.raises(ConfigError) as error:
        parse_config("[run]\nqqqq = 1\n", source="study.toml")
    assert str(error.value) == (
        "study.toml: run.qqqq: unknown key. "
        "Keys of [run]: engine, ray_address, workers, evaluate_every, evaluate_closely, evaluate_clients, perplexity, "
        "checkpoint_every"
    )


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.rounds=0", "training.rounds: expected a whole number (at least 1), got 0"),
        ("training.rounds=true", "training.rounds: expected a whole number (at least 1), got true"),
        ('training.rounds="5"', 'training.rounds: expected a whole number (at least 1), got "5"'),
        ("training.learning_rate=nan", "training.learning_rate: expected a number (above 0), got nan"),
        ("devices.dropout=1", "devices.dropout: expected a number (at least 0, below 1), got 1"),
        ("devices.deadline_s=-1", "devices.deadline_s: expected a number (above 0), got -1"),
        ("auxo.by_unit=1", "auxo.by_unit: expected true or false, got 1"),
        ("seed=2024-01-01", "seed: expected a whole number (at least 0), got 2024-01-01"),
        ("population.file=3", "population.file: expected a path, got 3"),
        ("population.samples=[5]", "population.samples: expected a list [a whole number (at least 1), "),
        ("population.groups=[]", "population.groups: expected a whole number (at least 1) or a list of one or more"),
        ("training.aggregator=fedavgg", "expected an aggregator (fedavg, fedyogi, "),
        ("training.aggregator=fedavgg", 'did you mean "fedavg"?'),
        (
            "training.selector=unifrom",
            'training.selector: expected a selector (uniform, oort, pyramidfl) or an import path, got "unif',
        ),
        (
            "training.client=fedprx",
            "training.client: expected a client algorithm (sgd, fedprox) or an import path, got",
        ),
        (
            'methods=["base", "best"]',
            "methods: expected a method (base, auxo, paper, oracle, random, cfl, fl+hc, flexcfl",
        ),
        ('methods=["base", "axo"]', 'got "axo"; did you mean "auxo"?'),
        ("methods=[]", "methods: expected a list of one or more values, each a string, got []"),
        ("auxo=3", "auxo: expected a section [auxo], got 3; set its keys"),
        ("paper.start_round=0", "paper.start_round: expected at least 1, got 0"),
        ("auxo.rate_scaling=sqr", '"none", "sqrt" or "linear", got "sqr"; did you mean "sqrt"?'),
        (
            "clipped.aggregator=fedyog",
            "clipped.aggregator: expected an aggregator (fedavg, fedyogi, ",
        ),
        ("fedyogi.server_learning_rate=nan", "fedyogi.server_learning_rate: expected a number (above 0), got nan"),
        ("training=3", "training: expected a section [training], got 3; set one of: aggregator, selector, client, per"),
        ("seed.x=3", "seed: expected a whole number (at least 0), got {x = 3}"),
        ("rounds", "--set rounds: expected section.key=value"),
        ("=3", "--set =3: expected section.key=value"),
        (".rounds=3", "--set .rounds=3: expected section.key=value"),
    ],
)
def test_a_wrong_value_is_named_with_what_was_expected(override: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_config("", [override])
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_an_override_below_a_value_is_refused() -> None:
    with pytest.raises(ConfigError, match="training is a value, it has no key 'rounds'"):
        parse_config("training = 3\n", ["training.rounds=3"])


@pytest.mark.parametrize(
    ("text", "overrides"), [("", ["parts.x=1"]), ("parts = 3", []), ("[parts.auxo]", ["auxo.x=1"])]
)
def test_parts_are_no_key_of_a_file(text: str, overrides: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"^(--set|configuration): parts: unknown key") as error:
        parse_config(text, overrides)
    assert str(error.value).endswith(
        "seed, name, methods, population, devices, training, privacy, attack, run, service"
    )
    with pytest.raises(ConfigError) as error:
        parse_config("", ["part.x=1"])
    assert "[parts]" not in str(error.value)


def test_every_problem_is_told_at_once_with_where_it_came_from() -> None:
    with pytest.raises(ConfigError) as error:
        parse_config("[training]\nrounds = 0\n", ["run.workers=0"], source="study.toml")
    lines = str(error.value).splitlines()
    assert [line.split(": ")[:2] for line in lines] == [["study.toml", "training.rounds"], ["--set", "run.workers"]]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["training.participants=3000"], "at most population.clients (2000), got 3000"),
        (["population.source=file"], 'expected a path because population.source = "file"'),
        (["population.file=a.npz"], "'a.npz' is given, but population.source = \"digits\""),
        (["population.samples=[60, 20]"], "expected [fewest, most], got [60, 20]"),
        (["population.groups=3000"], "at most as many groups as clients (2000), got 3000"),
        (
            ["paper.criterion.limits.begin=0.9", "paper.criterion.limits.end=0.7"],
            "--set: paper.criterion.limits.begin, end: expected 0 <= begin <= end <= 1, got 0.9 and 0.7",
        ),
        (["methods=['base', 'base']"], "expected each at most once"),
        (["name=../elsewhere"], "name: expected letters, digits"),
        (["population.source=synthetic", "training.model=cnn"], '"cnn" needs images'),
        (["population.source=synthetic", "population.heterogeneity=affine"], '"affine" needs images'),
        (["population.source=synthetic", "population.noise=0.5"], "noise is made for digits only"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_config("", overrides)
    assert message in str(error.value)


def test_a_population_file_brings_its_own_number_of_clients() -> None:
    config = parse_config("", ["population.source=file", "population.file=a.npz", "training.participants=3000"])
    assert config.population.file == Path("a.npz")


def test_a_missing_file_a_directory_and_invalid_toml_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no such file; `auxo config init"):
        load_config(tmp_path / "absent.toml")
    with pytest.raises(ConfigError, match="expected a TOML file, got a directory"):
        load_config(tmp_path)
    broken = tmp_path / "broken.toml"
    broken.write_text("seed = 1\nname = \n")
    with pytest.raises(ConfigError, match=r"broken\.toml: not valid TOML: .*line 2, column 8"):
        load_config(broken)
    broken.write_bytes(b"name = '\xff'")
    with pytest.raises(ConfigError, match="expected UTF-8 text, got invalid start byte at byte 8"):
        load_config(broken)


def test_what_is_not_set_is_left_out_and_explained_on_request() -> None:
    assert "deadline_s" not in to_toml(Config())
    explained = to_toml(Config(), explain=True)
    assert "# deadline_s is not set\n" in explained
    assert '# Where the clients\' data come from. given: from Python, by auxo.simulate. Takes "digits",' in explained


def test_every_setting_has_a_description() -> None:
    for name, section in Config.model_fields.items():
        assert section.description, name
        inner = getattr(Config(), name)
        for key, field in getattr(type(inner), "model_fields", {}).items():
            assert field.description, f"{name}.{key}"


positive = st.floats(min_value=0, exclude_min=True, allow_infinity=False)
configs = st.builds(
    Config,
    seed=st.integers(min_value=0),
    name=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]*", fullmatch=True),
    methods=st.lists(st.sampled_from(METHODS.names), min_size=1, unique=True).map(tuple),
    population=st.one_of(
        st.builds(
            PopulationConfig,
            source=st.just("file"),
            file=st.text(st.characters(exclude_categories=["Cs"])).map(Path),
            client_label_concentration=st.none() | positive,
        ),
        st.builds(PopulationConfig, groups=st.integers(1, 2000) | st.lists(positive, min_size=1).map(tuple)),
    ),
    devices=st.builds(DevicesConfig, deadline_s=st.none() | positive, overcommit=st.floats(0, 1000)),
    training=st.builds(
        TrainingConfig,
        learning_rate=positive,
        aggregator=st.sampled_from(AGGREGATORS.names),
        client=st.sampled_from(CLIENTS.names),
    ),
    parts=st.fixed_dictionaries(
        {},
        optional={
            "auxo": st.builds(
                Auxo, late_feedback=st.booleans(), trial=st.builds(TrialSettings, min_gain=st.floats(0, 0.99))
            ),
            "paper": st.builds(lambda alpha: {"criterion": {"alpha": alpha}}, positive),
            "ifca": st.builds(Ifca, cohorts=st.integers(1, 9)),
            "fedavg": st.builds(FedAvg, server_learning_rate=positive),
            "fedprox": st.builds(lambda mu: {"mu": mu}, positive),
        },
    ),
)


@settings(deadline=None, max_examples=50)
@given(configs, st.booleans())
def test_toml_reads_back_as_the_same_config(config: Config, explain: bool) -> None:
    again = parse_config(to_toml(config, explain))
    in_use = {name: config.parts[name] for _, _, name in config.parts_in_use()}
    assert again == config.model_copy(update={"parts": in_use})
    assert to_toml(again, explain) == to_toml(config, explain)


def test_a_population_given_as_a_configuration_is_told_where_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "clients.npz"
    path.write_bytes(b"PK\x03\x04\xff\xfe")
    with pytest.raises(ConfigError, match="auxo run --population"):
        load_config(path)


def test_paths_in_a_configuration_are_relative_to_it_and_those_of_options_to_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, here = tmp_path / "study", tmp_path / "here"
    study.mkdir()
    here.mkdir()
    (study / "phones.arrow").touch()
    (study / "net.py").write_text("import torch\n\n\ndef net():\n    return torch.nn.Linear(2, 2)\n", encoding="utf-8")
    (study / "study.toml").write_text(
        '[population]\nsource = "file"\nfile = "clients.arrow"\n'
        '[devices]\navailability = "trace"\navailability_file = "phones.arrow"\n'
        '[training]\nmodel = "net.py:net"\n',
        encoding="utf-8",
    )
    monkeypatch.chdir(here)
    config = load_config(Path("../study/study.toml"))
    assert config.population.file == study / "clients.arrow"
    assert config.devices.availability_file == study / "phones.arrow"
    assert config.training.model == f"{study / 'net.py'}:net"
    assert parse_config(to_toml(config)) == config  # the copy in a run's directory
    other = load_config(Path("../study/study.toml"), ["population.file=mine.arrow"])
    assert other.population.file == here / "mine.arrow"


@pytest.mark.parametrize(
    "settings",
    ["devices.overcommit=1e308", "training.epochs=1000000000", "training.epochs=10001"],
)
def test_sizes_beyond_all_use_are_refused_with_their_range(settings: str) -> None:
    with pytest.raises(ConfigError, match=r"expected .* \(.*at most 10000?[,)]"):
        load_config(None, [settings])


def test_lists_nested_without_end_are_refused() -> None:
    deep = "[" * 100_000 + "]" * 100_000
    with pytest.raises(ConfigError, match="expected tables and lists a few levels deep"):
        parse_config(f"methods = {deep}")
    with pytest.raises(ConfigError, match="methods"):
        parse_config("", [f"methods={deep}"])
