"""Errors that the user can mend: one message and exit code 2, whichever command they come from."""

import pytest
import typer
from typer.testing import CliRunner

from auxo.cli import app as auxo
from auxo.commands.command_group import CommandGroup, examples
from auxo.experiments.config_file import ConfigError
from auxo.files.errors import FileError
from auxo.runtime.failures import WorkersLost


def failing(error: Exception) -> typer.Typer:
    """Return a command line with a command in a group of its own that fails."""
    app, inner = typer.Typer(cls=CommandGroup), typer.Typer()

    @inner.command()
    def fail() -> None:
        raise error

    @inner.command()
    def succeed() -> None:
        typer.echo("done")

    app.add_typer(inner, name="inner")
    return app


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ConfigError("seed: expected a number"), "seed: expected a number"),
        (FileError("a.csv: damaged"), "a.csv: damaged"),
        (WorkersLost("all workers were lost"), "all workers were lost"),
        (MemoryError("no room"), "no room"),
        (OSError(2, "No such file or directory", "c.csv"), "c.csv: No such file or directory"),
        (OSError(28, "No space left on device"), "No space left on device"),
        (FileExistsError("run: expected an empty directory"), "run: expected an empty directory"),
    ],
)
def test_what_the_user_can_mend_is_one_message_and_exit_code_2(error: Exception, message: str) -> None:
    result = CliRunner().invoke(failing(error), ["inner", "fail"])
    assert result.exit_code == 2
    assert result.stderr == f"auxo: {message}\n"
    assert result.stdout == ""


def test_a_bug_keeps_its_traceback() -> None:
    result = CliRunner().invoke(failing(ValueError("shapes differ")), ["inner", "fail"])
    assert isinstance(result.exception, ValueError)


def test_what_goes_well_is_left_alone() -> None:
    assert CliRunner().invoke(failing(ValueError()), ["inner", "succeed"]).stdout == "done\n"


def test_examples_are_paragraphs_so_that_the_help_page_does_not_join_them() -> None:
    assert examples("auxo a", "auxo b") == "Examples:\n\nauxo a\n\nauxo b"


@pytest.mark.parametrize("command", ["run", "compare"])
@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["--population", "a.npz", "--population", "b.npz"], "--population"),
        (["--population=a.npz", "--population", "a.npz"], "--population"),
        (["--out", "one", "--set", "seed=3", "--out=two"], "--out"),
        (["--json", "one", "--json", "two"], "--json"),
    ],
)
def test_an_option_with_one_value_that_is_given_twice_is_refused(command: str, words: list[str], option: str) -> None:
    result = CliRunner().invoke(auxo, [command, *words])
    assert result.exit_code == 2
    assert f"{option} is given 2 times" in result.output


def test_options_that_may_be_given_many_times_may() -> None:
    result = CliRunner().invoke(auxo, ["run", "--set", "seed=x", "--set", "training.rounds=y"])
    assert result.exit_code == 2
    assert "given 2 times" not in result.output
    assert "seed: expected" in result.output
