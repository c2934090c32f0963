"""`auxo list`: what there is, and how to see its settings."""

import json
import shlex

import pytest
from typer.testing import CliRunner

from auxo.cli import app
from auxo.experiments.parts import KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_listed_with_how_to_see_the_settings_of_each(kind: str) -> None:
    listed = CliRunner().invoke(app, ["list", kind])
    last = listed.stdout.splitlines()[-1]
    assert last.startswith("settings: auxo config show --explain --set ")
    for name in KINDS[kind].names:
        shown = CliRunner().invoke(app, shlex.split(last.replace("NAME", name))[2:])
        assert shown.exit_code == 0, shown.output
        assert f'"{name}"' in shown.stdout


@pytest.mark.parametrize("arguments", [["models"], ["populations"], []])
def test_where_there_is_no_one_way_none_is_told(arguments: list[str]) -> None:
    assert "settings:" not in CliRunner().invoke(app, ["list", *arguments]).stdout
    rows = json.loads(CliRunner().invoke(app, ["list", *arguments, "--json"]).stdout)
    assert {"name", "about"} <= set(rows[0])
