from dataclasses import dataclass, field, fields
from math import inf, nan
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auxo.core.settings import (
    Bounds,
    Fraction,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    about,
    check_settings,
    checked,
    setting,
)


@dataclass(frozen=True)
class Prox:
    mu: float = setting(0.1, "How strongly participants are held.")
    rounds: int = 3
    names: tuple[str, ...] = field(default=(), metadata={"unit": "none"})


@dataclass(frozen=True)
@checked
class Bounded:
    rounds: PositiveInt
    share: Fraction = 0.5
    mu: NonNegativeFloat = setting(0.1, "How strongly participants are held.")
    clusters: Annotated[int, Bounds(ge=2, le=8)] = 8
    trimmed: Annotated[float, Bounds(gt=0, lt=0.5)] = 0.2
    rate: PositiveFloat | None = setting(None, "Not set: another's.")
    night: Annotated[float, Bounds(gt=1)] = 3.0
    sharing: Literal["members", "equal"] = "members"
    text: Literal["hashed"] | None = None
    free: float = nan
    either: PositiveInt | tuple[float, ...] = (-1.0,)


def test_a_setting_is_a_field_with_its_default() -> None:
    assert Prox() == Prox(0.1, 3, ())
    assert Prox(mu=0.5).mu == 0.5
    with pytest.raises(TypeError, match="nu"):
        Prox(nu=1)  # type: ignore[call-arg]  # that is the point


def test_a_field_that_nobody_has_explained_means_nothing() -> None:
    assert [about(one) for one in fields(Prox)] == ["How strongly participants are held.", "", ""]


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("rounds", 0, "at least 1, got 0"),
        ("rounds", inf, "at least 1, got inf"),
        ("share", 1.5, "a value in [0, 1], got 1.5"),
        ("share", -0.1, "a value in [0, 1], got -0.1"),
        ("share", nan, "a value in [0, 1], got nan"),
        ("mu", -1.0, "a number >= 0, got -1.0"),
        ("mu", inf, "a number >= 0, got inf"),
        ("mu", nan, "a number >= 0, got nan"),
        ("clusters", 9, "2 to 8, got 9"),
        ("clusters", 1, "2 to 8, got 1"),
        ("trimmed", 0.0, "a value in (0, 0.5), got 0.0"),
        ("trimmed", 0.5, "a value in (0, 0.5), got 0.5"),
        ("rate", 0.0, "a positive number, or none, got 0.0"),
        ("night", 1.0, "a number > 1, got 1.0"),
        ("sharing", "all", "'members' or 'equal', got 'all'"),
        ("text", "plain", "'hashed', or none, got 'plain'"),
    ],
)
def test_what_is_out_of_bounds_is_refused_by_name(name: str, value: object, said: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011  # the whole text is compared
        Bounded(**{"rounds": 1, name: value})  # type: ignore[arg-type]
    assert str(refused.value) == f"{name}: expected {said}"


def test_bounds_themselves_are_allowed_or_not_as_they_say() -> None:
    ends = Bounded(rounds=1, share=1, mu=0, clusters=2, trimmed=0.499, rate=None, sharing="equal", text="hashed")
    check_settings(ends)
    assert Bounded(rounds=10**400, clusters=8, share=0, rate=1e-300).rounds == 10**400


def test_an_own_check_comes_after_the_bounds() -> None:
    @dataclass(frozen=True)
    @checked
    class Window:
        begin: Fraction = 0.2
        end: Fraction = 0.5

        def __post_init__(self) -> None:
            if self.begin > self.end:
                raise ValueError("begin, end: expected begin <= end")

    with pytest.raises(ValueError, match=r"^begin, end: expected begin <= end"):
        Window(begin=0.6)
    with pytest.raises(ValueError, match=r"^begin: expected a value in"):
        Window(begin=2.0)


def test_a_class_that_is_not_checked_takes_anything_until_it_is() -> None:
    @dataclass(frozen=True)
    class Later:
        rounds: PositiveInt = 0

    with pytest.raises(ValueError, match=r"^rounds: expected at least 1, got 0$"):
        check_settings(Later())


@given(st.floats(allow_nan=True), st.floats(-5, 5), st.floats(-5, 5))
def test_bounds_hold_exactly_what_lies_between_them(value: float, one: float, other: float) -> None:
    least, most = sorted((one, other))
    assert Bounds(ge=least, le=most).hold(value) == (least <= value <= most)
    assert Bounds(gt=least, lt=most).hold(value) == (least < value < most)
