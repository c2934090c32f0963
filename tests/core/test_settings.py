from dataclasses import dataclass, field, fields

import pytest

from auxo.core.settings import about, meanings, setting


@dataclass(frozen=True)
class Prox:
    mu: float = setting(0.1, "How strongly participants are held.")
    rounds: int = 3
    names: tuple[str, ...] = field(default=(), metadata={"unit": "none"})


def test_a_setting_is_a_field_with_its_default() -> None:
    assert Prox() == Prox(0.1, 3, ())
    assert Prox(mu=0.5).mu == 0.5
    with pytest.raises(TypeError, match="nu"):
        Prox(nu=1)  # type: ignore[call-arg]  # that is the point


@pytest.mark.parametrize("of", [Prox, Prox(mu=2.0)])
def test_what_fields_mean_can_be_asked_of_a_class_and_of_an_instance(of: object) -> None:
    assert meanings(of) == {"mu": "How strongly participants are held.", "rounds": "", "names": ""}


def test_a_field_that_nobody_has_explained_means_nothing() -> None:
    assert [about(one) for one in fields(Prox)] == ["How strongly participants are held.", "", ""]
