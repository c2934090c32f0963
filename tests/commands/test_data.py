"""The commands `auxo data`: converting, describing and validating, their messages and exit codes."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from click.testing import Result
from typer.testing import CliRunner

import auxo
from auxo.cli import app
from auxo.datasets import catalogue
from auxo.datasets.catalogue import LOADERS
from auxo.datasets.client_samples import ClientSamples, SampleSource
from auxo.datasets.open_dataset import open_dataset
from auxo.datasets.tables import HASHED

CSV = "client,a,b,label,group\n" + "".join(
    f"u{row % 4},{row},{row / 2},{'yes' if row % 3 else 'no'},{'odd' if row % 2 else 'even'}\n" for row in range(40)
)


def data(*arguments: str | Path) -> Result:
    return CliRunner(env={"COLUMNS": "120"}).invoke(app, ["data", *(str(argument) for argument in arguments)])


@pytest.fixture(autouse=True)
def _in_a_directory_with_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.csv").write_text(CSV, encoding="utf-8")


def test_a_table_is_converted_described_and_validated() -> None:
    converted = data("convert", "mine.csv", "mine.arrow")
    assert converted.exit_code == 0, converted.output
    assert "wrote mine.arrow: 4 clients, 40 samples, 2 classes" in converted.output
    validated = data("validate", "mine.arrow")
    assert validated.exit_code == 0
    assert "mine.arrow: ok: 4 clients, 32 training and 8 test samples, 2 classes" in validated.output
    described = data("describe", "mine.arrow")
    assert described.exit_code == 0
    for words in ("quartiles 10, 10, 10", "label skew", "by chance", "even", "odd", "█"):
        assert words in described.output


def test_the_loader_may_be_named() -> None:
    assert data("convert", "table", "mine.csv", "mine.arrow", "--test-share", "0.5").exit_code == 0
    assert len(open_dataset(Path("mine.arrow")).test.y) == 20


def test_columns_and_shapes_are_passed_on() -> None:
    options = ("--client", "group", "--features", "b", "--features", "a", "--label", "client", "--shape", "2x1")
    result = data("convert", "mine.csv", "mine.arrow", *options)
    assert result.exit_code == 0, result.output
    opened = open_dataset(Path("mine.arrow"))
    assert opened.client_names == ("even", "odd")
    assert opened.features == (2, 1)
    assert (opened.x[:, 0] * 2 == opened.x[:, 1]).all()
    assert opened.n_classes == 4


def test_texts_are_converted_the_way_that_is_asked_for() -> None:
    for text, features in (("hashed", HASHED), ("characters", 20)):
        result = data("convert", "mine.csv", f"{text}.arrow", "--features", "label", "--text", text)
        assert result.exit_code == 0, result.output
        assert open_dataset(Path(f"{text}.arrow")).features == (features,)


def test_small_clients_are_left_out_when_asked_and_noted_when_not() -> None:
    Path("mine.csv").write_text(CSV + "lonely,1,1,yes,odd\n", encoding="utf-8")
    noted = data("convert", "mine.csv", "mine.arrow")
    assert noted.exit_code == 0
    assert "note: mine.arrow: split: expected at least one test sample of every client" in noted.output
    assert data("validate", "mine.arrow").exit_code == 2
    assert data("convert", "mine.csv", "mine.arrow", "--min-samples", "2", "--force").exit_code == 0
    assert open_dataset(Path("mine.arrow")).n_clients == 4


def test_a_bar_is_shown_on_a_terminal_only() -> None:
    assert "converting" not in data("convert", "mine.csv", "plain.arrow").stderr
    terminal = CliRunner(env={"TTY_COMPATIBLE": "1", "TTY_INTERACTIVE": "1", "TERM": "xterm", "CI": ""})
    assert "converting mine" in terminal.invoke(app, ["data", "convert", "mine.csv", "live.arrow"]).stderr


def test_a_file_that_exists_is_replaced_only_by_force() -> None:
    Path("mine.arrow").write_text("precious")
    refused = data("convert", "mine.csv", "mine.arrow")
    assert refused.exit_code == 2
    assert "mine.arrow: already exists and is left as it is; replace it with --force" in refused.output
    assert Path("mine.arrow").read_text() == "precious"
    assert data("convert", "mine.csv", "mine.arrow", "--force").exit_code == 0


def test_ctrl_c_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(path: Path) -> SampleSource:
        def clients() -> Any:
            yield ClientSamples("a", np.zeros((2, 1), np.float32), np.zeros(2, np.int64))
            raise KeyboardInterrupt

        return SampleSource("slow", path, ("no",), clients)

    monkeypatch.setitem(LOADERS, "slow", catalogue.Loader(interrupted, "a loader that is interrupted"))
    result = data("convert", "slow", "mine.csv", "mine.arrow")
    assert result.exit_code == 130
    assert "interrupted; mine.arrow was not written" in result.output
    assert [path.name for path in Path().iterdir()] == ["mine.csv"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("mine.csv",), "expected [LOADER] PATH OUT.arrow, got 1 words"),
        (("tabel", "mine.csv", "mine.arrow"), "LOADER: expected one of table, femnist"),
        (("mine.csv", "mine.parquet"), "expected a name that ends in .arrow"),
        (("mine.csv", "mine.arrow", "--shape", "28*28"), "--shape: expected sizes such as 28x28"),
        (("femnist", "mine.csv", "mine.arrow", "--label", "a"), "--label: only tables have columns to name"),
        (("mine.csv", "mine.arrow", "--client", "clint"), "did you mean 'client'?"),
        (("missing.csv", "mine.arrow"), "missing.csv: file: expected a table"),
        (("mine.csv", "nowhere/mine.arrow"), "nowhere: folder: expected one that exists"),
        (
            ("mine.csv", "mine.arrow", "--min-samples", "99"),
            "expected a client with 99 samples or more, got 10 at most",
        ),
        (("mine.csv", "mine.arrow", "--test-share", "2"), "test-share"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(arguments: tuple[str, ...], message: str) -> None:
    result = data("convert", *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())
    assert [path.name for path in Path().iterdir()] == ["mine.csv"]


def test_every_loader_is_listed() -> None:
    result = data("convert", "--list")
    assert result.exit_code == 0
    for name in LOADERS:
        assert f"\n{name} " in result.output


def test_the_page_has_charts_that_can_be_parsed_and_escapes_names() -> None:
    Path("mine.csv").write_text(CSV.replace("even", "<b>"), encoding="utf-8")
    result = data("describe", "mine.csv", "--html", "mine.html")
    assert result.exit_code == 0, result.output
    assert "page: mine.html" in result.output
    text = Path("mine.html").read_text(encoding="utf-8")
    assert "<b>" not in text
    assert "&lt;b&gt;" in text
    charts = [f"<svg{chart.split('</svg>')[0]}</svg>" for chart in text.split("<svg")[1:]]
    assert len(charts) == 4  # two, each wide and narrow
    labels = {words.text for chart in charts for words in ET.fromstring(chart).iter("text")}  # noqa: S314 - our own
    assert {"samples", "label skew", "clients", "by chance"} <= labels


def test_a_page_that_cannot_be_written_is_refused() -> None:
    result = data("describe", "mine.csv", "--html", "nowhere/mine.html")
    assert result.exit_code == 2
    assert "nowhere/mine.html: folder: expected one that exists" in result.output


@pytest.mark.parametrize("command", ["describe", "validate"])
def test_what_cannot_be_read_is_reported(command: str) -> None:
    Path("mine.arrow").write_bytes(b"ARROW1 and then nothing")
    result = data(command, "mine.arrow")
    assert result.exit_code == 2
    assert "mine.arrow: file: expected a federated file (Arrow), got one that cannot be read" in result.output


def test_population_files_are_described_and_validated_too() -> None:
    arrays: dict[str, Any] = {"x": np.eye(4), "y": [0, 1, 0, 1], "client": [1, 1, 2, 2], "test": [True, False] * 2}
    np.savez("old.npz", **arrays)
    assert "ok: 2 clients, 2 training and 2 test samples, 2 classes" in data("validate", "old.npz").output
    assert data("describe", "old.npz").exit_code == 0
    np.savez("old.npz", **(arrays | {"y": [0, 1, 0, -1]}))
    result = data("validate", "old.npz")
    assert result.exit_code == 2
    assert "old.npz: 1 problem\n" in result.output


@pytest.mark.parametrize(
    "arguments", [("convert", "mine.csv", "mine.arrow"), ("validate", "there.arrow"), ("describe", "mine.csv")]
)
def test_without_pyarrow_the_message_says_how_to_get_it(arguments: tuple[str, ...]) -> None:
    program = f"import sys; sys.modules['pyarrow'] = None\nfrom auxo.cli import app\napp({['data', *arguments]!r})"
    Path("there.arrow").touch()
    environment = os.environ | {"PYTHONPATH": str(Path(auxo.__file__).parents[1])}
    result = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment
    )
    assert result.returncode == 2
    assert "pip install 'auxo[data]'" in result.stderr
    assert "Traceback" not in result.stderr


def test_convert_says_which_columns_became_inputs_and_what_was_done_about_gaps() -> None:
    rows = [f"u{row % 4},{row},{'' if row == 3 else row % 3},{row % 2}" for row in range(40)]
    Path("gaps.csv").write_text("client,row_id,size,label\n" + "\n".join(rows) + "\n", encoding="utf-8")
    refused = data("convert", "gaps.csv", "gaps.arrow")
    assert refused.exit_code == 2
    assert "got 1 of 40 rows have missing values (size: 1); leave these rows out with --missing drop" in refused.stderr
    assert not Path("gaps.arrow").exists()
    made = data("convert", "gaps.csv", "gaps.arrow", "--missing", "mean")
    assert made.exit_code == 0, made.output
    assert "inputs: 2 columns (row_id, size), each standardised by its training mean and deviation" in made.stdout
    assert "note: column 'row_id' became an input, but looks like an id (by its name)" in made.stderr
    kept = data("convert", "gaps.csv", "plain.arrow", "--missing", "drop", "--as-they-are", "--features", "size")
    assert "39 samples" in kept.stdout
    assert "inputs: 1 column (size), as they are" in kept.stdout
