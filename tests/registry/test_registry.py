"""Parts by name and by import path, and what a part that lacks something is told."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from auxo.core.aggregators import Aggregator, FedAvg, FedYogi
from auxo.registry.registry import Entry, Registry, short_name
from tests.registry.own_parts import METHOD, SMALL_PARTS

AGGREGATORS = Registry(
    "aggregator",
    (
        Entry("fedavg", "Adds the mean update.", "auxo.core.aggregators.fedavg:FedAvg"),
        Entry("fedyogi", "Adapts the rate.", "auxo.core.aggregators.adaptive:FedYogi"),
    ),
    (Aggregator,),
)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_method.py").write_text(METHOD)
    (tmp_path / "my_parts.py").write_text(SMALL_PARTS)
    return tmp_path


def test_a_name_stands_for_a_class() -> None:
    assert AGGREGATORS.names == ("fedavg", "fedyogi")
    assert AGGREGATORS.find("fedavg") is FedAvg
    assert AGGREGATORS.find("fedyogi") is FedYogi


def test_an_import_path_stands_for_a_class_in_a_package_or_in_a_file(files: Path) -> None:
    assert AGGREGATORS.find("auxo.core.aggregators.fedavg:FedAvg") is FedAvg
    doubled = AGGREGATORS.find("my_parts.py:Doubled")
    assert doubled is AGGREGATORS.find("my_parts.py:Doubled")
    AGGREGATORS.check(doubled(), "my_parts.py:Doubled")
    assert AGGREGATORS.find(f"{files / 'my_parts.py'}:Doubled").__name__ == "Doubled"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "fedavgg",
            'expected an aggregator (fedavg, fedyogi) or an import path, got "fedavgg"; did you mean "fedavg"?',
        ),
        ("krum", 'got "krum"; a part of your own goes in as "file.py:Name".'),
        ("", 'got ""; a part of your own'),
        ("my_parts.py:", 'got "my_parts.py:"; a part of your own'),
        ("my_parts.py:Dubled", 'no such name; did you mean "Doubled"?'),
        ("absent.py:Doubled", "absent.py: no such file"),
        ("no_such_package:Doubled", "expected a module, got none named no_such_package"),
        ("my_method.py:make_method", "expected a class with settings as its fields, got a function"),
    ],
)
def test_what_is_no_part_is_refused_with_what_was_probably_meant(files: Path, name: str, message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the message is below
        AGGREGATORS.find(name)
    assert message in str(error.value)


@dataclass(frozen=True)
class Lacking:
    def initial(self) -> None: ...


def test_a_part_that_lacks_something_is_refused_by_naming_it() -> None:
    AGGREGATORS.check(FedAvg(), "fedavg")
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the message is below
        AGGREGATORS.check(Lacking(), "mine.py:Lacking")
    assert str(error.value) == (
        "mine.py:Lacking: expected an aggregator as auxo.core.aggregators.aggregator:Aggregator describes it, got one "
        "without accumulate, step; add what is missing"
    )


def test_a_part_has_the_name_that_it_was_asked_for_with(files: Path) -> None:
    assert AGGREGATORS.name_of(FedAvg()) == "fedavg"
    doubled = AGGREGATORS.find("my_parts.py:Doubled")
    assert AGGREGATORS.name_of(doubled()) == "my_parts.py:Doubled"
    assert AGGREGATORS.name_of(Lacking()).endswith(":Lacking")


def test_a_registry_of_a_kind_says_it_with_its_article() -> None:
    assert [Registry(kind, (), ()).a_kind for kind in ("method", "aggregator")] == ["a method", "an aggregator"]


@pytest.mark.parametrize(("name", "short"), [("auxo", "auxo"), ("a.b:C", "C"), ("/home/me.d/x.py:Y", "Y")])
def test_a_long_name_has_a_short_one(name: str, short: str) -> None:
    assert short_name(name) == short
