"""The documentation: links lead somewhere, commands and settings exist, code runs, and nothing listed is left out."""

import importlib.util
import re
import shlex
from dataclasses import fields
from itertools import pairwise
from pathlib import Path

import click
import numpy as np
import pytest
from typer.main import get_command

import auxo
from auxo import AffinityFeedback, AffinityRequest, CheckIn, Server, Task, TaskFailure, TaskResult
from auxo.algorithms.base import OneCohort
from auxo.cli import app
from auxo.commands.options import all_overrides
from auxo.core.affinity import AffinityRecords
from auxo.core.aggregators.q_fedavg import QFedAvg
from auxo.core.asking import Answer, Ask, Judgement
from auxo.core.types import ROOT as ROOT_COHORT
from auxo.core.types import CohortId
from auxo.core.words import Words
from auxo.experiments.config import Config, Section
from auxo.experiments.config_file import parse_config
from auxo.experiments.parts import AGGREGATORS, CLIENTS, METHODS, SELECTORS
from auxo.experiments.references import reference_names, reference_text

ROOT = Path(__file__).parents[1]
TEXTS = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
}
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def fenced(text: str, *languages: str) -> list[str]:
    return [body for language, body in FENCE.findall(text) if language in languages]


def files_shown(text: str) -> dict[str, str]:
    """Return the files that a document has its readers write, by name: fences such as ```python title=NAME."""
    return dict(re.findall(r"^```\w+ title=(\S+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))


def code(text: str) -> list[str]:
    """Return the lines of shell fences, and what sentences and tables show as code."""
    lines = [line for body in fenced(text, "", "sh") for line in body.splitlines()]
    return [*lines, *re.findall(r"`([^`\n]+)`", FENCE.sub("", text))]


def shown(*programs: str) -> list[tuple[str, str]]:
    """Return (document, command) for every command of these programs that a document shows."""
    starts = tuple(f"{program} " for program in programs)
    return [(name, line) for name, text in TEXTS.items() for line in code(text) if line.startswith(starts)]


def anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", [name for name in TEXTS if "flower" in name])
def test_nobody_who_deploys_is_told_to_install_from_an_index_what_is_on_none(name: str) -> None:
    assert not re.findall(r"pip install .?auxo\b(?!-[\d.]+-)", TEXTS[name])


@pytest.mark.parametrize("name", TEXTS)
def test_every_link_within_the_project_leads_somewhere(name: str) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", TEXTS[name])):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        target, _, anchor = link.partition("#")
        path = (ROOT / name).parent.joinpath(target).resolve() if target else ROOT / name
        assert path.exists(), link
        if anchor:
            assert anchor in anchors(path.read_text(encoding="utf-8")), link


@pytest.mark.parametrize(("document", "line"), shown("auxo"))
def test_every_command_of_auxo_has_the_subcommands_and_options_that_are_shown(document: str, line: str) -> None:
    command: click.Command = get_command(app)
    _, *words = shlex.split(line, comments=True)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        assert words[0] in command.commands
        command = command.commands[words.pop(0)]
    options = {option for parameter in command.params for option in parameter.opts} | {"-h", "--help"}
    assert {word for word in words if word.startswith("-")} <= options


@pytest.mark.parametrize("name", TEXTS)
def test_every_override_that_is_shown_is_accepted(name: str) -> None:
    for line in code(TEXTS[name]):
        words = shlex.split(line, comments=True) if "--set " in line and not line.startswith("python") else []
        files = [Path(value) for option, value in pairwise(words) if option == "--population"]
        values = [value for option, value in pairwise(words) if option == "--set"]
        reference = next((word for word in words if word in reference_names()), None)
        given = all_overrides(values, files[0] if files else None)
        parse_config("" if reference is None else reference_text(reference), given)  # raises otherwise


def all_settings() -> set[str]:
    """Return every key of a configuration, and the parts and sections that hold some."""
    sections = {name: getattr(Config(), name) for name in Config.model_fields}
    keys = {f"{name}.{key}" for name, part in sections.items() if isinstance(part, Section) for key, _ in part}
    maker = Config().maker
    for registry in (METHODS, AGGREGATORS, SELECTORS, CLIENTS):
        for name in registry.names:
            for section, lines in maker.described(maker.make(registry, name), name):
                keys |= {section, *(f"{section}.{line.key}" for line in lines)}
    return keys


@pytest.mark.parametrize("name", [name for name in TEXTS if name != "CHANGELOG.md"])  # it tells of what is gone
def test_every_setting_that_is_named_exists(name: str) -> None:
    named = re.findall(r"`((?:population|devices|training|auxo|run)\.[\w.]+)`", TEXTS[name])
    packages = tuple(f"auxo.{path.name}" for path in (ROOT / "src" / "auxo").iterdir() if path.is_dir())
    # Names of Auxo in Python, and of what a variable called run is there.
    public = {f"auxo.{one}" for one in auxo.__all__} | {f"run.{one}" for one in dir(auxo.FinishedRun)}
    assert {key for key in named if not key.startswith(packages)} <= all_settings() | public


@pytest.mark.parametrize(("document", "line"), shown("make"))
def test_every_make_target_that_is_shown_exists(document: str, line: str) -> None:
    targets = re.findall(r"^(\w+):.*##", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    words = [word for word in shlex.split(line, comments=True)[1:] if "=" not in word]
    assert words
    assert set(words) <= set(targets)


@pytest.mark.parametrize(("document", "line"), shown("python", ".venv/bin/python"))
def test_every_script_that_is_shown_has_the_options_that_are_shown(document: str, line: str) -> None:
    _, script, *words = shlex.split(line, comments=True)
    if script == "-m":
        return
    source = files_shown(TEXTS[document]).get(script) or (ROOT / script).read_text(encoding="utf-8")
    options = re.findall(r'add_argument\(\s*"(--[\w-]+)"', source)
    assert {word for word in words if word.startswith("-")} <= set(options)


@pytest.mark.parametrize(
    "name", [name for name, text in TEXTS.items() if fenced(text, "python") and name != "README.md"]
)
def test_the_code_in_the_documents_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for file, content in files_shown(TEXTS[name]).items():
        (tmp_path / file).write_text(content, encoding="utf-8")
    names: dict[str, object] = {}
    # What readers run as a script may need what came before; test_tutorial.py runs these, one after another.
    scripts = [body for file, body in files_shown(TEXTS[name]).items() if f"\npython {file}\n" in TEXTS[name]]
    for number, block in enumerate(fenced(TEXTS[name], "python"), start=1):
        if block in scripts:
            continue
        exec(compile(block, f"{name}, block {number}", "exec"), names)  # noqa: S102 - our own documents


def test_the_readme_names_the_rivals_and_says_how_to_add_one() -> None:
    use, limits = (
        TEXTS["README.md"].split(heading)[1].split("\n## ")[0] for heading in ("## Use 1", "## What it does not")
    )
    for words in ("auxo list", '"ifca"', "training.client=fedprox", "docs/own-method.md"):
        assert words in use
    assert "IFCA" in limits
    assert TEXTS["README.md"].count("](docs/own-method.md)") == 2


def test_the_loop_in_the_readme_finds_the_cohorts_of_the_example() -> None:
    spec = importlib.util.spec_from_file_location("plain_numpy", ROOT / "examples" / "plain_numpy.py")
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    initial_weights = np.zeros(example.FEATURES, np.float32)
    samples = list(zip(example.x, example.y, strict=True))
    yours = {"train": example.train, "loss": example.loss, "samples": samples}
    names = {"initial_weights": initial_weights, "names": range(example.CLIENTS), **yours}
    loop, _ = fenced(TEXTS["README.md"], "python")
    exec(loop, names)  # noqa: S102 - our own document
    server = names["server"]

    assert isinstance(server, Server)
    assert server.cohorts == ("0.0", "0.1")
    cohort_of = names["cohort_of"]
    assert isinstance(cohort_of, dict)
    assert [cohort_of[name] for name in range(4)] in (["0.0", "0.1"] * 2, ["0.1", "0.0"] * 2)
    assert set(cohort_of) == set(range(example.CLIENTS))
    fits = [example.accuracy(server.weights(cohort_of[name]), [name]) for name in range(example.CLIENTS)]
    assert sum(fits) / len(fits) > 0.9


@pytest.mark.parametrize("name", TEXTS)
def test_every_function_is_where_the_documents_say(name: str) -> None:
    for path, functions in re.findall(r"`([\w/]+\.py)`: ((?:`[\w.]+`(?:, )?)+)", TEXTS[name]):
        source = (ROOT / "src" / "auxo" / path).read_text(encoding="utf-8")
        for part in re.findall(r"\w+", functions):
            assert re.search(rf"^\s*(def|class) {part}\b", source, re.MULTILINE), f"{path}: {part}"


def test_the_ways_through_the_code_are_as_long_as_they_say() -> None:
    ways = re.findall(r"(\d+) functions in (\d+) files\.\n\n((?:\d+\. .*\n)+)", TEXTS["docs/architecture.md"])
    assert len(ways) == 3
    for functions, files, way in ways:
        steps = re.findall(r"`([\w/]+\.py)`: ((?:`[\w.]+`(?:, )?)+)", way)
        named = {(path, function) for path, some in steps for function in re.findall(r"`([\w.]+)`", some)}
        assert (len(named), len({path for path, _ in named})) == (int(functions), int(files))


def test_every_word_of_the_glossary_has_a_meaning_and_a_place() -> None:
    rows = re.findall(r"^\| (?!word |---)(.*) \|$", TEXTS["docs/glossary.md"], re.MULTILINE)
    words = [row.split(" | ")[0] for row in rows]
    assert {"cohort", "cluster", "vouched", "known", "judge"} <= set(words)
    assert len(set(words)) == len(words)
    for row in rows:
        _, meaning, places = row.split(" | ")
        assert meaning.endswith(".")
        assert all(re.fullmatch(r"`[\w/]+\.py`: `\w.*`", place) for place in places.split("; ")), row


@pytest.mark.parametrize(
    "kind",
    [
        CheckIn,
        AffinityRequest,
        Task,
        Ask,
        TaskResult,
        Answer,
        Words,
        Judgement,
        TaskFailure,
        AffinityFeedback,
        AffinityRecords,
    ],
)
def test_the_protocol_describes_every_field_of_its_messages(kind: type) -> None:
    heading = "The client's record" if kind is AffinityRecords else kind.__name__
    (section,) = re.findall(rf"^##+ {heading}\b.*?(?=^##)", TEXTS["docs/protocol.md"], re.MULTILINE | re.DOTALL)
    assert {field.name for field in fields(kind)} <= set(re.findall(r"`(\w+)`", section))


def test_the_protocol_lists_exactly_the_reasons_for_which_results_are_refused() -> None:
    by_loss = QFedAvg(learning_rate=0.1)
    server = Server(np.zeros(2, np.float32), participants=10, rounds=1, method=OneCohort(), aggregator=by_loss)
    good, number = np.ones(2, np.float32), 1
    tasks = server.open_round(ROOT_COHORT, [CheckIn(client) for client in range(10)])
    first, second, third, fourth, fifth, sixth, seventh, *others = (task.client for task in tasks)
    server.close_round(
        ROOT_COHORT,
        [
            TaskResult(first, ROOT_COHORT, number, Answer(np.ones(3, np.float32), 1, loss=1.0)),
            TaskResult(second, ROOT_COHORT, number, Answer(np.full(2, np.nan, np.float32), 1, loss=1.0)),
            TaskResult(third, ROOT_COHORT, number, Answer(good, 0, loss=1.0)),
            TaskResult(fourth, CohortId("0.1"), number, Answer(good, 1)),
            TaskResult(fifth, ROOT_COHORT, number, Answer(np.full(2, 1e9, np.float32), 1, loss=1.0)),
            TaskResult(sixth, ROOT_COHORT, number, Answer(31 * good, 1, loss=1.0)),
            TaskResult(seventh, ROOT_COHORT, number, Answer(good, 1, loss=float("nan"))),
            TaskResult(99, ROOT_COHORT, number, Answer(good, 1)),
            *(TaskResult(other, ROOT_COHORT, number, Answer(good, 1, loss=1.0)) for other in others),
        ],
    )
    listed = re.findall(r"^\| `([A-Z_]+)` \|", TEXTS["docs/protocol.md"], re.MULTILINE)
    assert sorted(listed) == sorted(rejection.reason for rejection in server.rejections)


def test_the_table_of_rooms_is_that_of_the_layers() -> None:
    spec = importlib.util.spec_from_file_location("rooms", ROOT / "docs" / "rooms.py")
    assert spec is not None
    assert spec.loader is not None
    rooms = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(rooms)
    text = TEXTS["docs/architecture.md"]
    assert rooms.filled(text) == text, "run python docs/rooms.py"
    assert "| `core` |" in rooms.table()


def test_sentences_of_the_readme_are_short() -> None:
    prose = re.sub(r"<!--.*?-->|^\|.*$|^ {4}.*$", "", FENCE.sub("", TEXTS["README.md"]), flags=re.MULTILINE)
    prose = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", prose)
    paragraphs = re.split(r"\n\s*\n|\n(?=[-#*\d])", prose)
    sentences = [one for each in paragraphs for one in re.split(r"(?<=[.!?])\s+", " ".join(each.split()))]
    too_long = [one for one in sentences if len(one.split()) > 30]
    assert not too_long, "\n".join(too_long)
