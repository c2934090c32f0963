"""Examples below help pages: their settings exist."""

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise

import click
import pytest
from typer.main import get_command

from auxo.cli import app
from auxo.experiments.config_file import parse_config


def epilogs(command: click.Command) -> Iterator[str]:
    if command.epilog:
        yield command.epilog
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            yield from epilogs(inner)


EXAMPLES = [line for text in epilogs(get_command(app)) for line in text.splitlines() if "--set" in line]


def test_there_are_examples_with_settings() -> None:
    assert len(EXAMPLES) > 2


@pytest.mark.parametrize("example", EXAMPLES)
def test_settings_in_examples_are_settings(example: str) -> None:
    words = shlex.split(re.sub(r"  #.*", "", example))
    overrides = [after for word, after in pairwise(words) if word == "--set"]
    assert overrides
    parse_config("", overrides)
