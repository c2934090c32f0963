"""Settings of parts: a section is laid over the defaults, and what does not fit is named with its key."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from auxo.core.settings import Fraction, setting
from auxo.registry.part_settings import PartMaker, SettingLine
from auxo.registry.registry import Entry, Registry
from tests.registry.toy_rules import STUBBORN, Limits, Patient, Rule, Strict

RULES = Registry(
    "rule",
    (
        Entry("patient", "Waits.", "tests.registry.toy_rules:Patient"),
        Entry("strict", "Does not.", "tests.registry.toy_rules:Strict"),
    ),
    (Rule,),
)
LIMITS = Limits(begin=0.1, end=0.9)


@dataclass(frozen=True)
class Inner:
    size: int = setting(4, "How large.")
    share: Fraction = setting(0.5, "How much.")  # held to its bounds, although the class itself is not checked

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"size: expected at least 1, got {self.size}")


@dataclass(frozen=True)
class Outer:
    inner: Inner = field(default_factory=lambda: Inner(size=7))
    rule: Rule = field(default_factory=lambda: Strict(LIMITS, alpha=3.0))
    rates: tuple[float, ...] = setting((0.1, 0.2), "Which rates.")
    kind: Literal["plain", "odd"] = setting("plain", "Which kind.")
    is_on: bool = setting(True, "Whether it is on.")
    name: str = setting("it", "What it is called.")
    limit: int | None = setting(None, "The most.")


PARTS = Registry("part", (Entry("outer", "All of it.", f"{__name__}:Outer"),), (Outer,))


def make(**table: object) -> Outer:
    part = PartMaker({Rule: RULES}, {"outer": table}).make(PARTS, "outer")
    assert isinstance(part, Outer)
    return part


def sections_of(part: object) -> dict[str, dict[str, object]]:
    maker = PartMaker({Rule: RULES}, {})
    return {section: {line.key: line.value for line in lines} for section, lines in maker.described(part, "outer")}


def test_without_a_section_a_part_has_its_defaults() -> None:
    assert make() == Outer()
    assert PartMaker({}, {}).make(PARTS, "outer") == Outer()


def test_a_section_changes_what_it_names_and_nothing_else() -> None:
    assert make(kind="odd", is_on=False, limit=3) == Outer(kind="odd", is_on=False, limit=3)
    assert make(rates=[0.5]) == Outer(rates=(0.5,))
    assert make(rates=[1, 2]) == Outer(rates=(1.0, 2.0))


def test_what_is_within_keeps_what_the_outer_part_had_set() -> None:
    assert make(inner={"share": 0.25}) == Outer(inner=Inner(size=7, share=0.25))
    assert make(rule={"rounds": 5}) == Outer(rule=Strict(LIMITS, alpha=3.0, rounds=5))
    assert make(rule={"limits": {"end": 0.5}}) == Outer(rule=Strict(Limits(0.1, 0.5), alpha=3.0))


def test_a_part_within_goes_by_its_name_or_by_a_table_with_its_name() -> None:
    assert make(rule="patient") == Outer(rule=Patient())
    assert make(rule={"name": "patient", "rounds": 3}) == Outer(rule=Patient(rounds=3))
    assert make(rule={"name": "strict", "rounds": 5}) == Outer(rule=Strict(LIMITS, alpha=3.0, rounds=5))


def test_a_part_of_ones_own_goes_within_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_rule.py").write_text(STUBBORN)
    made = make(rule={"name": "my_rule.py:Stubborn", "patience": 9, "limits": {"begin": 0.0}}).rule
    assert not made.stops(100)
    assert made.limits == Limits(begin=0.0)
    assert sections_of(Outer(rule=made))["outer.rule"] == {"name": "my_rule.py:Stubborn", "patience": 9}


def test_the_part_itself_may_stand_in_place_of_its_section() -> None:
    part = Outer(kind="odd")
    assert PartMaker({}, {"outer": part}).make(PARTS, "outer") is part


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"kind": "oddd"}, 'outer.kind: expected "plain" or "odd", got "oddd"; did you mean "odd"?'),
        ({"is_on": 1}, "outer.is_on: expected true or false, got 1"),
        ({"limit": "3"}, 'outer.limit: expected a whole number, got "3"'),
        ({"rates": [True]}, "outer.rates: expected a list of values, each a number, got [true]"),
        ({"rates": 3}, "outer.rates: expected a list of values, each a number, got 3"),
        ({"inner": 3}, "outer.inner: expected a section [outer.inner], got 3; set its keys"),
        ({"inner": {"size": 0}}, "outer.inner.size: expected at least 1, got 0"),
        ({"inner": {"share": 1.5}}, "outer.inner.share: expected a value in [0, 1], got 1.5"),
        ({"inner": {"share": "1"}}, 'outer.inner.share: expected a number (at least 0, at most 1), got "1"'),
        ({"inner": {"size": 2.5}}, "outer.inner.size: expected a whole number, got 2.5"),
        ({"rule": "stric"}, "outer.rule: expected a rule (patient, strict) or an import path, got "),
        ({"rule": 3}, "outer.rule: expected the name of a rule, got 3"),
        ({"rule": {"alpha": -1.0}}, "outer.rule.alpha: expected a positive number, got -1.0"),
        (
            {"rule": {"limits": {"end": 0.0}}},
            "outer.rule.limits.begin, end: expected begin <= end, got 0.1 and 0.0",
        ),
        (
            {"rule": {"name": f"{__name__}:Inner"}},
            "expected a rule as tests.registry.toy_rules:Rule",
        ),
        ({"kidn": 3}, "outer.kidn: unknown key; did you mean outer.kind? Keys of [outer]: inner, rule, rates"),
        ({"share": 3}, "outer.share: unknown key; did you mean outer.inner.share? Keys of [outer]: "),
        ({"begin": 3}, "outer.begin: unknown key; did you mean outer.rule.limits.begin? Keys of [outer]: "),
        ({"qqqq": 3}, "outer.qqqq: unknown key. Keys of [outer]: "),
        ({"rule": {"max_gain": 0.1}}, "outer.rule.max_gain: unknown key. Keys of [outer.rule]: limits"),
    ],
)
def test_what_does_not_fit_is_named_with_what_was_expected(table: Mapping[str, object], message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the message is below
        make(**table)
    assert message in str(error.value)


def test_a_part_is_described_section_by_section_as_it_reads_back() -> None:
    part = make(rule={"name": "patient", "rounds": 3}, inner={"size": 2}, limit=3)
    sections = sections_of(part)
    assert list(sections) == ["outer", "outer.inner", "outer.rule", "outer.rule.limits"]
    assert sections["outer.rule"]["name"] == "patient"
    rule = {**sections["outer.rule"], "limits": sections["outer.rule.limits"]}
    assert make(**sections["outer"], inner=sections["outer.inner"], rule=rule) == part


def test_lines_say_what_settings_mean_and_take() -> None:
    described = dict(PartMaker({Rule: RULES}, {}).described(Outer(), "outer"))
    assert SettingLine("kind", "plain", "Which kind.", '"plain" or "odd"') in described["outer"]
    assert described["outer.rule"][0] == SettingLine(
        "name", "strict", "Which rule.", '"patient" or "strict" or an import path'
    )


class Bare:
    """A part that is no dataclass."""


@dataclass(frozen=True)
class Needy:
    strength: float


def test_a_part_without_settings_has_none_to_set_and_every_setting_has_a_default() -> None:
    anything = Registry(
        "part", (Entry("bare", "", f"{__name__}:Bare"), Entry("needy", "", f"{__name__}:Needy")), (object,)
    )
    assert isinstance(PartMaker({}, {}).make(anything, "bare"), Bare)
    with pytest.raises(ValueError, match=r"bare\.size: unknown key\. bare has nothing to set"):
        PartMaker({}, {"bare": {"size": 3}}).make(anything, "bare")
    with pytest.raises(ValueError, match=r"needy: .*strength.*; give every setting of it a default"):
        PartMaker({}, {}).make(anything, "needy")
