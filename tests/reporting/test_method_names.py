"""Words and colours of methods: known ones keep theirs, others share a cycle safe for the colour-blind."""

from auxo.reporting.method_names import contenders, method_colours, words_for
from auxo.reporting.style import STYLE


def test_known_methods_have_words_of_their_own_and_others_their_names() -> None:
    assert [words_for(method).name for method in ("base", "auxo", "oracle")] == ["base", "Auxo", "oracle"]
    assert words_for("ifca").title == "IFCA: best of K models"
    assert words_for("paper").title == "paper: Auxo to the letter"
    other = words_for("fedavg-2")
    assert {other.name, other.title, other.description} == {"fedavg-2"}


def test_known_methods_keep_their_colours_whoever_is_beside_them() -> None:
    colours = method_colours(["ifca", "oracle", "paper", "auxo", "base", "z"])
    assert {method: colours[method] for method in ("base", "auxo", "oracle")} == {
        method: method for method in ("base", "auxo", "oracle")
    }
    assert len(set(colours.values())) == 6


def test_colours_are_used_again_when_there_are_more_methods_than_colours() -> None:
    colours = method_colours([f"own-{number}" for number in range(9)])
    assert len(set(colours.values())) == 4
    assert colours["own-0"] == colours["own-4"]


def test_every_colour_is_in_the_style_sheet() -> None:
    for colour in method_colours(["base", "auxo", "oracle", *"vwxyz"]).values():
        assert f".c-{colour}{{--c:" in STYLE


def test_contenders_are_all_but_the_base_and_the_oracle() -> None:
    assert contenders(["oracle", "x", "base", "auxo"]) == ("x", "auxo")
