"""The parts that a configuration names: which settings it stands for, one by one, and parts of one's own."""

from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import pytest

from auxo.algorithms.auxo import Auxo, ClusteringSettings, TrialSettings
from auxo.algorithms.ifca import Ifca
from auxo.algorithms.oracle import Oracle
from auxo.algorithms.paper import Lemma, Paper, PaperClustering, PartitionLimits
from auxo.core.affinity import AffinitySettings
from auxo.core.aggregators import FedAvg, FedYogi
from auxo.core.aggregators.norm_clipping import Clipped
from auxo.core.client_algorithms.fedprox import FedProx
from auxo.core.rewards import RewardSettings
from auxo.core.settings import about
from auxo.experiments.config import Config
from auxo.experiments.config_file import ConfigError, parse_config, to_toml
from auxo.experiments.parts import (
    AGGREGATORS,
    CLIENTS,
    KINDS,
    METHODS,
    SELECTORS,
    part_maker,
    registry_of,
    section_names,
)
from auxo.registry.registry import Registry
from tests.registry.own_parts import METHOD, SETTINGS, SMALL_PARTS

OURS, PAPERS = Auxo(), Paper()
WITH_SECTIONS = (METHODS, AGGREGATORS, SELECTORS, CLIENTS)


def part(registry: Registry, name: str, *overrides: str) -> object:
    return parse_config("", overrides).maker.make(registry, name)


def auxo(*overrides: str) -> Auxo:
    made = part(METHODS, "auxo", *overrides)
    assert isinstance(made, Auxo)
    return made


def paper(*overrides: str) -> Paper:
    made = part(METHODS, "paper", *overrides)
    assert isinstance(made, Paper)
    return made


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    parts = {"my_method": METHOD, "my_parts": SMALL_PARTS, "my_settings": SETTINGS}
    for name, text in parts.items():
        (tmp_path / f"{name}.py").write_text(text)
    return tmp_path


# Those that come with Auxo.


@pytest.mark.parametrize("registry", KINDS.values(), ids=KINDS)
def test_every_part_that_comes_with_auxo_can_be_made_and_is_what_its_kind_asks_for(registry: Registry) -> None:
    for entry in registry.entries:
        made = registry.find(entry.name)()
        registry.check(made, entry.name)
        assert registry.name_of(made) == entry.name
        assert entry.about.endswith(".")


@pytest.mark.parametrize("registry", WITH_SECTIONS)
def test_without_a_section_every_part_has_its_own_defaults(registry: Registry) -> None:
    for name in registry.names:
        assert part(registry, name) == registry.find(name)()
        assert registry_of(name) is registry
        assert name in section_names()
    assert registry_of("lemma") is None


def test_every_setting_of_every_part_says_what_it_means() -> None:
    def check(value: object, path: str) -> None:
        if not is_dataclass(value) or isinstance(value, type):
            return
        for one in fields(value):
            inner = getattr(value, one.name)
            assert is_dataclass(inner) or about(one), f"{path}.{one.name}"
            check(inner, f"{path}.{one.name}")

    for registry in KINDS.values():
        for name in registry.names:
            check(registry.find(name)(), name)


def test_the_papers_method_differs_only_in_the_rules() -> None:
    assert PAPERS.affinity.reward_decay == OURS.affinity.reward_decay
    assert PAPERS.clustering.clusters == 2
    assert PAPERS.rate_scaling == "linear"
    assert PAPERS.matching != OURS.matching  # in the paper nobody compares models


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("affinity.label_memory=0.3", replace(OURS, affinity=AffinitySettings(label_memory=0.3))),
        ("affinity.label_trust=0.3", replace(OURS, affinity=AffinitySettings(label_trust=0.3))),
        ("affinity.exploration=0.9", replace(OURS, affinity=AffinitySettings(exploration=0.9))),
        ("affinity.exploration_decay=0.3", replace(OURS, affinity=AffinitySettings(exploration_decay=0.3))),
        ("affinity.reward_decay=0.7", replace(OURS, affinity=AffinitySettings(reward_decay=0.7))),
        (
            "affinity.accumulate_predictions=true",
            replace(OURS, affinity=AffinitySettings(accumulate_predictions=True)),
        ),
        ("clustering.clusters=3", replace(OURS, clustering=ClusteringSettings(clusters=3))),
        ("clustering.pool_rounds=5", replace(OURS, clustering=ClusteringSettings(pool_rounds=5))),
        ("clustering.pool_most=500", replace(OURS, clustering=ClusteringSettings(pool_most=500))),
        ("rewards.leave_one_out=false", replace(OURS, rewards=RewardSettings(leave_one_out=False))),
        ("rewards.scale_by_known=false", replace(OURS, rewards=RewardSettings(scale_by_known=False))),
        ("rewards.weigh_length=false", replace(OURS, rewards=RewardSettings(weigh_length=False))),
        ("trial.min_gain=0.5", replace(OURS, trial=TrialSettings(min_gain=0.5))),
        ("trial.alpha=0.1", replace(OURS, trial=TrialSettings(alpha=0.1))),
        ("trial.judges=30", replace(OURS, trial=TrialSettings(judges=30))),
        ("late_feedback=false", replace(OURS, late_feedback=False)),
        ("admit_misfits=true", replace(OURS, admit_misfits=True)),
        ("rate_scaling=sqrt", replace(OURS, rate_scaling="sqrt")),
        ("sharing=equal", replace(OURS, sharing="equal")),
    ],
)
def test_every_setting_changes_what_it_is_called_after_and_nothing_else(override: str, expected: Auxo) -> None:
    assert expected != OURS
    assert auxo(f"auxo.{override}") == expected


@pytest.mark.parametrize(
    ("registry", "override", "expected"),
    [
        (AGGREGATORS, "fedavg.server_learning_rate=0.5", FedAvg(server_learning_rate=0.5)),
        (AGGREGATORS, "fedavg.weighting=uniform", FedAvg(weighting="uniform")),
        (AGGREGATORS, "fedyogi.server_learning_rate=1", FedYogi(server_learning_rate=1.0)),
        (AGGREGATORS, "fedyogi.weighting=uniform", FedYogi(weighting="uniform")),
        (METHODS, "ifca.cohorts=7", Ifca(cohorts=7)),
        (METHODS, "ifca.warm_start=0", Ifca(warm_start=0)),
        (METHODS, "oracle.rate_scaling=linear", Oracle(rate_scaling="linear")),
        (METHODS, "oracle.sharing=equal", Oracle(sharing="equal")),
        (METHODS, "oracle.starts=[0.5]", Oracle(starts=(0.5,))),
        (METHODS, "paper.clustering.restart_after=9", Paper(clustering=PaperClustering(restart_after=9))),
        (METHODS, "paper.criterion.alpha=3.0", Paper(criterion=Lemma(alpha=3.0))),
        (CLIENTS, "fedprox.mu=1", FedProx(mu=1.0)),
        (CLIENTS, "fedprox.sends_partial_work=false", FedProx(sends_partial_work=False)),
    ],
)
def test_the_section_of_a_part_is_that_of_its_name(registry: Registry, override: str, expected: object) -> None:
    name = override.partition(".")[0]
    assert part(registry, name, override) == expected
    assert part(registry, name) != expected


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("begin=0.2", PartitionLimits(begin=0.2)),
        ("end=0.95", PartitionLimits(end=0.95)),
        ("min_participants=17", PartitionLimits(min_participants=17)),
    ],
)
def test_the_papers_criterion_has_limits(override: str, expected: PartitionLimits) -> None:
    assert paper(f"paper.criterion.limits.{override}").criterion == Lemma(expected)


def test_a_departure_can_be_had_in_the_papers_method() -> None:
    assert paper("paper.rewards.weigh_length=true") == replace(
        PAPERS, rewards=replace(PAPERS.rewards, weigh_length=True)
    )
    assert paper("paper.clustering.clusters=3").clustering == replace(PAPERS.clustering, clusters=3)


def test_parts_go_in_as_they_are_from_python_and_as_tables() -> None:
    given = Auxo(late_feedback=False)
    assert Config(parts={"auxo": given}).maker.make(METHODS, "auxo") is given
    assert Config(parts={"auxo": {"late_feedback": False}}).maker.make(METHODS, "auxo") == given
    assert part_maker({"auxo": {"late_feedback": False}}).make(METHODS, "auxo") == given
    with pytest.raises(ValueError, match=r"auxo: expected a section \[auxo\], got "):
        Config(parts={"auxo": Ifca()})


def test_settings_of_parts_that_are_not_in_use_are_checked_too() -> None:
    assert part(METHODS, "ifca", 'methods=["base"]', "ifca.cohorts=7") == Ifca(cohorts=7)
    for override, message in (
        ("ifca.cohorts=0", r"ifca\.cohorts: expected at least 1, got 0"),
        ("fedprox.nu=1", r"fedprox\.nu: unknown key\. Keys of \[fedprox\]: mu, sends_partial_work"),
        ("fedavg.weighting=3", r'fedavg\.weighting: expected "examples" or "uniform", got 3'),
    ):
        with pytest.raises(ConfigError, match=message):
            parse_config("", ['methods=["base"]', override])


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("ifac.cohorts=2", "ifac: unknown key; did you mean [ifca]? Sections of parts: alie, auxo, "),
        ("qqqq.x=1", "qqqq: unknown key. Sections of parts: "),
        ("uniform.x=1", "uniform.x: unknown key. Keys of [uniform]: none"),
    ],
)
def test_sections_that_belong_to_nobody_are_refused(override: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_config("", [override])
    assert message in str(error.value)


@pytest.mark.parametrize("explain", [False, True])
def test_all_parts_read_back_from_toml_as_they_were(explain: bool) -> None:
    config = Config(
        methods=METHODS.names,
        training=Config().training.model_copy(update={"aggregator": "fedavg", "client": "fedprox"}),
        parts={
            "auxo": Auxo(late_feedback=False, trial=TrialSettings(most_rounds=5)),
            "paper": Paper(criterion=Lemma(PartitionLimits(end=0.9), alpha=0.5, rounds=2), start_round=3),
            "ifca": Ifca(cohorts=3, warm_start=7),
            "oracle": Oracle(starts=(0.0, 0.5, 0.75)),
            "fedavg": FedAvg(server_learning_rate=0.3, weighting="uniform"),
            "fedprox": FedProx(mu=0.3, sends_partial_work=False),
        },
    )
    again = parse_config(to_toml(config, explain))
    assert again == config
    assert to_toml(again, explain) == to_toml(config, explain)


def test_what_settings_of_parts_mean_is_explained() -> None:
    text = to_toml(parse_config('methods = ["auxo", "ifca"]', ["training.aggregator=clipped"]), explain=True)
    assert "\n# Models (K); the method has to be told. Takes a whole number (at least 1).\ncohorts = 4\n" in text
    assert '\nname = "fedavg"\n' in text.split("[clipped.aggregator]")[1]


# Of one's own.


def test_a_method_of_ones_own_has_its_settings_in_the_section_of_its_name(files: Path) -> None:
    text = """
    methods = ["base", "my_method.py:MyMethod"]

    [MyMethod]
    strength = 0.25
    depth = {levels = 5}
    aggregator = {name = "fedyogi", server_learning_rate = 2.0}
    """
    config = parse_config(text, ["MyMethod.aggregator.weighting=uniform"])
    made = config.maker.make(METHODS, "my_method.py:MyMethod")
    assert type(made).__name__ == "MyMethod"
    assert (vars(made)["strength"], vars(made)["depth"].levels) == (0.25, 5)
    assert vars(made)["aggregator"] == FedYogi(server_learning_rate=2.0, weighting="uniform")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["MyMethod.strength=-1"], "MyMethod.strength: expected at least 0, got -1.0"),
        (["MyMethod.strenght=1"], "MyMethod.strenght: unknown key; did you mean MyMethod.strength?"),
        (["MyMethod.levels=1"], "MyMethod.levels: unknown key; did you mean MyMethod.depth.levels?"),
        (["MyMethd.strength=1"], "MyMethd: unknown key; did you mean [MyMethod]?"),
        (["methods=['my_method.py:MyMethd']"], 'no such name; did you mean "MyMethod"?'),
        (
            ["methods=['my_method.py:Half']"],
            "got one without matching, memory, openers, shares, plan, admission, close; add ",
        ),
        (["methods=['my_method.py:Needy']"], "give every setting of it a default"),
        (["methods=['my_method.py:make_method']"], "expected a class with settings as its fields, got a function"),
        (["methods=['absent.py:MyMethod']"], "methods: absent.py: no such file; give its path from the working direct"),
        (["methods=['my_method.py:MyMethod', 'my_method.py:MyMethod']"], "methods: expected each at most once"),
        (
            ["training.aggregator=my_method.py:MyMethod"],
            "expected an aggregator as auxo.core.aggregators.aggregator:Aggregator",
        ),
    ],
)
def test_what_is_wrong_with_a_method_of_ones_own_is_named(files: Path, overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_config('methods = ["my_method.py:MyMethod"]', overrides)
    assert message in str(error.value)


def test_an_aggregator_of_ones_own_goes_into_another(files: Path) -> None:
    text = '[clipped.aggregator]\nname = "my_parts.py:Doubled"\nfactor = 7.0\n'
    config = parse_config(text, ["training.aggregator=clipped"])
    made = config.maker.make(AGGREGATORS, "clipped")
    assert isinstance(made, Clipped)
    assert vars(made.aggregator) == {"factor": 7.0}
    assert parse_config(to_toml(config)).maker.make(AGGREGATORS, "clipped") == made
    with pytest.raises(ConfigError, match=r"clipped\.aggregator\.facto: unknown key; did you mean clipped\.agg"):
        parse_config(text, ["clipped.aggregator.facto=3"])


def test_every_kind_of_part_can_be_ones_own_and_reads_back_from_toml(files: Path) -> None:
    overrides = [
        "methods=['base', 'my_method.py:MyMethod']",
        "training.aggregator=my_parts.py:Doubled",
        "training.selector=my_parts.py:FirstComeFirstServed",
        "training.client=my_parts.py:Held",
        "Doubled.factor=3",
        "Held.proximal=0.2",
        "MyMethod.strength=0.1",
    ]
    config = parse_config("", overrides)
    again = parse_config(to_toml(config, explain=True))
    assert again == config
    assert "[Doubled]\nfactor = 3.0\n" in to_toml(config)
    assert to_toml(again) == to_toml(config)


@pytest.mark.parametrize("explain", [False, True])
@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["Rich.limit=3", "Rich.cache=elsewhere", "Rich.sizes=[]", "Rich.is_on=false"],
        ["Rich.pairs=[[3, 1], [4, 2]]", "Rich.kind=3", "Rich.by_name={x = 1, 'y z' = 2}", 'Rich.paths=["a", "b"]'],
        ["Rich.inner.limit=2", "Rich.inner.size=4", "Rich.maybe={size = 5}", "Rich.anything=[1, 2]", "Rich.\u03bc=2"],
    ],
)
def test_settings_of_every_type_read_back_from_toml_as_they_were(
    files: Path, overrides: list[str], explain: bool
) -> None:
    config = parse_config("", ["training.client=my_settings.py:Rich", *overrides])
    again = parse_config(to_toml(config, explain))
    assert again == config
    assert repr(again.parts) == repr(config.parts)
    assert (len(overrides) == 0) == (config.parts["Rich"] == CLIENTS.find("my_settings.py:Rich")())


def test_what_is_not_set_of_a_part_is_left_out_and_explained(files: Path) -> None:
    config = parse_config("", ["training.client=my_settings.py:Rich"])
    assert "limit" not in to_toml(config).partition("[Rich]")[2]
    assert "# The most. Takes a whole number.\n# limit is not set\n" in to_toml(config, explain=True)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("WithClass", "WithClass.kind: expected a value that a configuration can hold, got the class int; a setting"),
        ("WithSet", "WithSet.names: expected a value that a configuration can hold, got a frozenset; a setting is a"),
        ("WithNan", "WithNan.rate: expected a value that a configuration can hold, got nan; a setting is a number"),
        ("WithNoneInside", "WithNoneInside.rates: expected a value that a configuration can hold, got None; a setting"),
        ("WithWrongType", "WithWrongType.size: expected a whole number, got 0.5"),
        ("WithStringOrPath", "WithStringOrPath.place: expected a value that a configuration can hold, got PosixPath("),
        (
            "Undecorated",
            "training.client: my_settings.py:Undecorated: expected a dataclass, because it has settings (mu",
        ),
        ("Undecorated", "got the plain class Undecorated; decorate it with @dataclass(frozen=True)"),
    ],
)
def test_settings_that_no_configuration_can_hold_are_refused_at_once(files: Path, name: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_config("", [f"training.client=my_settings.py:{name}"])
    assert message in str(error.value)


def test_a_setting_that_is_taken_away_in_python_is_refused_because_no_file_can_say_so(files: Path) -> None:
    kind = CLIENTS.find("my_settings.py:WithNumber")
    with pytest.raises(ValueError, match=r"WithNumber\.limit: .*got None, which would be read back as 3"):
        Config.model_validate(
            {"training": {"client": "my_settings.py:WithNumber"}, "parts": {"WithNumber": kind(limit=None)}}
        )


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("Strict.mu=2", "--set: Strict: that is too much"),
        ("Strict.mu=-1", "--set: Strict: ZeroDivisionError (below 0) while it was made"),
        ("Strict.mu=inf", "--set: Strict.mu: expected a number, got inf"),
        ("Strict={mu = 2, proximal = 3}", "--set: Strict"),
    ],
)
def test_what_a_part_refuses_in_words_of_its_own_is_told_with_its_section(
    files: Path, override: str, message: str
) -> None:
    with pytest.raises(ConfigError) as error:
        parse_config("", ["training.client=my_settings.py:Strict", override], source="study.toml")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "methods=['my_method.py:Half']",
            "--set: methods: my_method.py:Half: expected a method as auxo.core.cohort_al",
        ),
        ("methods=['my_method.py:Needy']", "--set: methods: my_method.py:Needy: "),
        ("training.aggregator=my_parts.py:Held", "--set: training.aggregator: my_parts.py:Held: expected an aggregat"),
        ("paper={start_round = 0}", "--set: paper.start_round: expected at least 1, got 0"),
        ("paper.criterion.limits.end=0.1", "--set: paper.criterion.limits.begin, end: expected 0 <= begin <= end"),
    ],
)
def test_what_is_wrong_by_an_override_is_not_blamed_on_the_file(files: Path, override: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_config("[paper.criterion.limits]\nbegin = 0.2\n", [override], source="study.toml")
    assert str(error.value).startswith(message)
    with pytest.raises(ConfigError, match=r"^study\.toml: paper\.start_round: expected at least 1"):
        parse_config("[paper]\nstart_round = 0\n", ["auxo.late_feedback=false"], source="study.toml")


# Names.


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["methods=['one.py:Mine', 'two.py:Mine']"],
            "methods: expected parts of different names, because each has its section and its folder, got "
            '"two.py:Mine" and "one.py:Mine" (methods), both called Mine; rename one',
        ),
        (
            ["methods=['base', 'one.py:Held']", "training.client=my_parts.py:Held"],
            "training.client: expected parts of different names, because each has its section and its folder, got "
            '"my_parts.py:Held" and "one.py:Held" (methods), both called Held; rename one',
        ),
        (
            ["methods=['one.py:Outer.Inner']"],
            'methods: expected a class at the top of its file, got "one.py:Outer.Inner"; '
            "give it a name there (OuterInner = Outer.Inner)",
        ),
        (
            ["methods=['one.py:training']"],
            'methods: expected a name that is not taken, got "one.py:training", but a key of every configuration is '
            "called training; rename it",
        ),
        (["methods=['one.py:parts']"], "but a key of every configuration is called parts; rename it"),
        (["methods=['one.py:fedavg']"], "but an aggregator of Auxo is called fedavg; rename it"),
    ],
)
def test_names_that_are_taken_are_refused_with_who_has_them(files: Path, overrides: list[str], message: str) -> None:
    names = ("Held", "training", "parts", "fedavg")
    code = "from auxo.algorithms.base import OneCohort as Mine\n\n\nclass Outer:\n    Inner = Mine\n\n\n"
    text = code + "".join(f"class {name}(Mine): ...\n\n\n" for name in names)
    for file in ("one", "two"):
        (files / f"{file}.py").write_text(text)
    with pytest.raises(ConfigError) as error:
        parse_config("", overrides)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("methods=['fedprox']", '"fedprox"; "fedprox" is a client algorithm, it goes in by training.client'),
        ("methods=['FedAvg']", '"FedAvg"; "fedavg" is an aggregator, it goes in by training.aggregator'),
        ("training.aggregator=ifca", '"ifca"; "ifca" is a method, it goes in by methods'),
        ("clipped.aggregator=uniform", '"uniform"; "uniform" is a selector, it goes in by training.selector'),
        ("methods=['IFCA']", 'got "IFCA"; did you mean "ifca"?'),
        ("training.client=FedProx", 'got "FedProx"; did you mean "fedprox"?'),
        (
            "methods=['auxo.core.aggregators.fedavg:FedAvg']",
            "it looks like an aggregator, which goes in by training.aggregator",
        ),
        ("training.aggregator=auxo.algorithms.base:OneCohort", "it looks like a method, which goes in by methods"),
    ],
)
def test_a_part_of_another_kind_is_told_where_it_belongs(override: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_config("", [override])
    assert message in str(error.value)


def test_a_part_that_needs_a_missing_module_is_a_message(files: Path) -> None:
    (files / "needy.py").write_text("import no_such_module_at_all\n")
    for override in ("clipped.aggregator=needy.py:Mine", "training.selector=needy.py:Mine"):
        with pytest.raises(ConfigError) as error:
            parse_config("", [override])
        assert f"--set: {override.partition('=')[0]}: needy.py:Mine: needs the module no_such_" in str(error.value)
        assert "which is not installed; install it" in str(error.value)


def test_a_part_within_by_its_name_takes_settings_afterwards(files: Path) -> None:
    both = part(AGGREGATORS, "clipped", "clipped.aggregator=fedyogi", "clipped.aggregator.weighting=uniform")
    assert both == Clipped(aggregator=FedYogi(weighting="uniform"))
    config = parse_config('[clipped]\naggregator = "my_parts.py:Doubled"\n', ["clipped.aggregator.factor=7"])
    made = config.maker.make(AGGREGATORS, "clipped")
    assert isinstance(made, Clipped)
    assert vars(made.aggregator) == {"factor": 7.0}


def test_a_setting_within_a_part_cannot_be_called_as_what_names_the_part(files: Path) -> None:
    (files / "named.py").write_text(SMALL_PARTS.replace("factor", "name"))
    with pytest.raises(ConfigError, match=r"clipped\.aggregator\.name: expected another name for a setting"):
        parse_config("", ["clipped.aggregator=named.py:Doubled"])


def test_sections_without_effect_are_known_with_what_would_use_them() -> None:
    config = parse_config("", ["fedprox.mu=0.1", "ifca.cohorts=3", "auxo.trial.judges=30"])
    assert config.unused_sections() == {"fedprox": CLIENTS, "ifca": METHODS}
    assert parse_config(to_toml(config)).unused_sections() == {}


OPTIONAL = """
from dataclasses import dataclass, field

import numpy as np

from auxo.algorithms.base import OneCohort
from auxo.core.aggregators import Aggregator
from auxo.core.settings import setting


@dataclass(frozen=True)
class Optional(OneCohort):
    aggregator: Aggregator | None = setting(None, "How to step.")
    table: np.ndarray | None = None


@dataclass(frozen=True)
class Nameless(OneCohort):
    size: "NobodyKnows" = 3
"""


@pytest.mark.parametrize("overrides", [[], ["Optional.aggregator=fedyogi", "Optional.aggregator.weighting=uniform"]])
def test_a_part_within_may_be_left_out(files: Path, overrides: list[str]) -> None:
    (files / "optional.py").write_text(OPTIONAL)
    config = parse_config("", ["methods=['optional.py:Optional']", *overrides])
    assert parse_config(to_toml(config, explain=True)) == config
    assert config.parts["Optional"].aggregator == (FedYogi(weighting="uniform") if overrides else None)
    if not overrides:
        assert "# aggregator is not set" in to_toml(config, explain=True)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["Optional.aggregator.weighting=uniform"],
            "Optional.aggregator: expected an aggregator (fedavg, fedyogi, ",
        ),
        (["Optional.table=[1]"], "Optional.table: cannot be set in a configuration, because it is "),
        (["methods=['optional.py:Nameless']"], "--set: methods: optional.py:Nameless: its types cannot be read (name "),
    ],
)
def test_what_cannot_be_read_into_a_part_is_told(files: Path, overrides: list[str], message: str) -> None:
    (files / "optional.py").write_text(OPTIONAL)
    with pytest.raises(ConfigError) as error:
        parse_config("methods = ['optional.py:Optional']", overrides)
    assert message in str(error.value)
