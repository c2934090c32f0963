"""The command `auxo privacy plan`: what it says before anybody trains."""

import json

import pytest
from click.testing import Result
from typer.testing import CliRunner

from auxo.cli import app


def plan(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["privacy", "plan", *(str(one) for one in arguments)], env={"COLUMNS": "100"})


def test_a_plan_says_what_is_hidden_from_whom_and_what_is_left() -> None:
    result = plan("--epsilon", 2, "--participations", 1, "--choice-share", 0)
    assert result.exit_code == 0
    for words in (
        "any two data sets of a client",
        "knows who takes part",
        "4.46 clips",
        "10,000 (yours)",
        "32 times as long as the longest update",
        "Nothing is left that can be learned from.",
        "promise sample level",
    ):
        assert words in " ".join(result.output.split())


def test_a_noise_is_told_as_epsilon_and_the_papers_figure_is_no_promise() -> None:
    result = plan("--noise", 0.766, "--participations", 5, "--clients", 20_000, "--rounds", 500)
    words = " ".join(result.output.split())
    assert "epsilon as papers count it 3.98: a trusted server" in words
    assert "no promise" in words
    told = json.loads(plan("--noise", 0.766, "--participations", 5, "--json").output)
    assert told["epsilon"] > 40


def test_choices_and_samples_are_told() -> None:
    words = " ".join(plan("--epsilon", 8, "--participations", 1).output.split())
    assert "epsilon of a choice of model" in words
    assert "of 2," in words
    words = " ".join(plan("--promise", "sample", "--participations", 2, "--samples", 60).output.split())
    assert "one sample of a client" in words
    assert "in each of 10 steps" in words


@pytest.mark.parametrize(("option", "value"), [("--epsilon", 0), ("--delta", 1.5), ("--noise", -1)])
def test_what_cannot_be_is_refused_in_one_line(option: str, value: float) -> None:
    result = plan(option, value)
    assert result.exit_code == 2
    assert f"{option.removeprefix('--')}: expected" in result.stderr
    assert "Traceback" not in result.output
