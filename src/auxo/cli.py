"""The command line: `auxo demo`, `run`, `compare`, `report`, `config`, `data` and `traces`.

Exit codes: 0 when all went well, 2 for bad input (one message, no traceback), 130 after Ctrl-C.
"""

import json
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from itertools import chain, count
from pathlib import Path
from typing import Annotated, Literal

import click
import typer
from rich.console import Console
from typer.core import TyperGroup

from auxo.commands.data import data_app
from auxo.commands.traces import traces_app
from auxo.engines.memory import keep_freed_memory
from auxo.experiments.config import Config
from auxo.experiments.config_file import ConfigError, load_config, to_toml, toml_value
from auxo.experiments.run_directory import RunDirectory
from auxo.experiments.seeds import run_seeds
from auxo.experiments.summary import ORACLE, Summary
from auxo.files.errors import FileError
from auxo.protocol.events import Event
from auxo.reporting.comparison_tables import comparison_over_seeds
from auxo.reporting.progress import Budget, OnEvent, show_progress
from auxo.reporting.report import write_report
from auxo.reporting.terminal import cohort_tree_text, comparison_table, headline
from auxo.runtime.failures import WorkersLost

_BAD_INPUT = 2
_INTERRUPTED = 130  # what shells report for a process that SIGINT ended


class _Commands(TyperGroup):
    """Turns errors that the user can mend into one message and exit code 2, for all commands."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise  # `auxo config show | head` is no error; click ends quietly
        except (ConfigError, FileError, OSError, MemoryError, WorkersLost) as error:
            typer.echo(f"auxo: {_message(error)}", err=True)
            raise typer.Exit(_BAD_INPUT) from None


def _examples(*commands: str) -> str:
    return "\n\n".join(("Examples:", *commands))  # the help page joins lines, but not paragraphs


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=_examples(
        "auxo demo  # see what cohorts bring, on a built-in population",
        "auxo config init study.toml  # write a commented configuration to change",
        "auxo run study.toml  # run it and write a report",
        "auxo compare study.toml --seeds 3  # run it with three seeds, with confidence intervals",
        "auxo data convert table mine.parquet mine.arrow  # your own clients' data",
    ),
)
config_app = typer.Typer(
    no_args_is_help=True,
    epilog=_examples(
        "auxo config show --explain  # every setting, its meaning and its default",
        "auxo config init study.toml  # the same in a file, to change and to run",
    ),
)
app.add_typer(config_app, name="config")
app.add_typer(data_app, name="data")
app.add_typer(traces_app, name="traces")

ConfigFile = Annotated[Path | None, typer.Argument(metavar="[CONFIG.toml]")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change one setting; may be given many times."),
]
OutDirectory = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="New or empty directory for the run. Default: runs/NAME-SEED."),
]
JsonFile = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Also write the main numbers as one JSON object.")
]
PopulationFile = Annotated[
    Path | None,
    typer.Option(
        "--population",
        metavar="FILE",
        help="Clients from a file (.arrow, .parquet, .csv, .npz): sets population.source and .file.",
    ),
]
DataFolder = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Folder with the files of population.dataset, instead of what AUXO_DATA says: sets population.data.",
    ),
]
EngineName = Annotated[
    Literal["local", "ray"] | None,
    typer.Option(
        "--engine",
        help="Where participants train: on this machine, or on a Ray cluster with the same result: sets run.engine.",
    ),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        "--ray-address",
        metavar="HOST:PORT|auto",
        help="With --engine ray: a running cluster, instead of one on this machine for this run: sets run.ray_address.",
    ),
]


def main() -> None:
    """Run the command line and exit."""
    keep_freed_memory()
    app(prog_name="auxo")


def _print_version(is_asked: bool) -> None:
    if is_asked:
        try:
            typer.echo(f"auxo {version('auxo')}")
        except PackageNotFoundError:
            typer.echo("auxo (not installed: run from source)")
        raise typer.Exit


@app.callback()
def auxo(
    is_version_asked: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Federated learning that finds cohorts of alike clients while it trains."""


@app.command(
    epilog=_examples("auxo demo", "auxo demo --seed 1 --json demo.json", "auxo demo --out runs/first-try"),
)
def demo(
    seed: Annotated[int, typer.Option(min=0, help="Everything random follows from it.")] = 0,
    out: OutDirectory = None,
    json_file: JsonFile = None,
) -> None:
    """Compare one model for all clients, Auxo and known groups on a built-in population."""
    from auxo.experiments.demo import demo_config  # noqa: PLC0415  # with the runner, below

    _execute(demo_config(seed), out, json_file)


@app.command(
    epilog=_examples(
        "auxo run study.toml",
        "auxo run study.toml --set training.rounds=50 --set seed=3",
        "auxo run --population clients.npz --set training.participants=20",
        "auxo run study.toml --out runs/study --json study.json",
        "auxo run study.toml --engine ray --ray-address auto  # on all CPUs of the cluster this machine belongs to",
    )
)
def run(  # noqa: PLR0913, PLR0917 - one for each option
    config_file: ConfigFile = None,
    overrides: Overrides = None,
    population: PopulationFile = None,
    data: DataFolder = None,
    engine: EngineName = None,
    ray_address: RayAddress = None,
    out: OutDirectory = None,
    json_file: JsonFile = None,
) -> None:
    """Run an experiment and write its report.

    CONFIG.toml has the settings that differ from the defaults; without it, all are at their defaults.
    Ctrl-C stops the run; what was done so far is kept, and reported.
    """
    settings = _all_overrides(overrides, population, engine, ray_address, data)
    _execute(load_config(config_file, settings), out, json_file)


@app.command(
    epilog=_examples(
        "auxo compare study.toml",
        "auxo compare study.toml --seeds 5 --out runs/study",
        "auxo compare writers --data DIR  # a reference that comes with Auxo, on data that do not",
    )
)
def compare(  # noqa: PLR0913, PLR0917 - one for each option
    config_file: ConfigFile = None,
    overrides: Overrides = None,
    population: PopulationFile = None,
    data: DataFolder = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, from that of the configuration on.")] = 3,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Folder for the runs, one directory a seed; seeds that are done there are kept. "
            "Default: runs/NAME-seeds.",
        ),
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Run an experiment with several seeds and compare Auxo with the base, seed by seed.

    CONFIG.toml is as for `auxo run`, or the name of a reference. Differences come with 95 % confidence intervals over
    seeds. Ctrl-C keeps the seeds that are done; the same command goes on where it stopped.
    """
    config = load_config(config_file, _all_overrides(overrides, population, data=data))
    _check_json(json_file)
    folder = out or Path("runs") / f"{config.name}-seeds"
    messages = Console(stderr=True)

    def run_seed(of_seed: Config, directory: RunDirectory) -> Summary:
        messages.print(f"seed {of_seed.seed}", highlight=False)
        summary = _run_into(directory, of_seed, messages)
        write_report(directory)
        return summary

    comparison = run_seeds(config, seeds, folder, run_seed)
    Console().print("", comparison_over_seeds(comparison), sep="\n")
    if json_file is not None:
        json_file.write_text((folder / "comparison.json").read_text(encoding="utf-8"), encoding="utf-8")
    typer.echo(f"numbers: {folder / 'comparison.json'}; each seed's report: {folder}/seed-*/report.html")


@app.command(epilog=_examples("auxo report runs/demo-0"))
def report(
    run_directory: Annotated[Path, typer.Argument(metavar="RUN")],
) -> None:
    """Write the report of a run again and print where it is.

    RUN is the directory that the run was written to; the run may be unfinished.
    """
    try:
        path = write_report(RunDirectory.open(run_directory))
    except ValueError as error:  # files of the run were damaged or are of another version
        raise ConfigError(str(error)) from error
    typer.echo(str(path))


@config_app.callback()
def config() -> None:
    """See and write configurations."""


@config_app.command(
    epilog=_examples(
        "auxo config show", "auxo config show study.toml --set auxo.min_gain=0.4", "auxo config show --explain"
    )
)
def show(
    config_file: ConfigFile = None,
    overrides: Overrides = None,
    population: PopulationFile = None,
    data: DataFolder = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say what each setting means and takes.")] = False,
) -> None:
    """Print the complete configuration as TOML, as `auxo run` would use it."""
    typer.echo(to_toml(load_config(config_file, _all_overrides(overrides, population, data=data)), explain), nl=False)


@config_app.command(epilog=_examples("auxo config init", "auxo config init study.toml"))
def init(
    path: Annotated[Path, typer.Argument(metavar="[PATH]")] = Path("auxo.toml"),
) -> None:
    """Write a commented configuration with every setting at its default.

    PATH is the file to write; one that exists is left as it is.
    """
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(to_toml(Config(), explain=True))
    except FileExistsError:
        raise ConfigError(f"{path}: already exists and is left as it is; choose another path") from None
    typer.echo(f"wrote {path}; run it with: auxo run {path}")


def _execute(config: Config, out: Path | None, json_file: Path | None) -> None:
    """Run an experiment, show and report it."""
    _check_json(json_file)
    directory = RunDirectory.create(out or _free_directory(config), to_toml(config))
    summary = _run_into(directory, config, Console(stderr=True))
    if json_file is not None:
        json_file.write_text(json.dumps(headline(summary), indent=2, allow_nan=False) + "\n", encoding="utf-8")
    _show_result(summary, directory)
    if ORACLE in config.methods and ORACLE not in summary.methods:
        typer.echo("oracle: left out, because these clients have no known groups to tell apart")
    typer.echo(f"report: {write_report(directory)}")


def _check_json(json_file: Path | None) -> None:
    if json_file is not None and (json_file.is_dir() or not json_file.parent.is_dir()):
        raise ConfigError(f"--json {json_file}: expected a file in an existing directory; the run was not started")


def _run_into(directory: RunDirectory, config: Config, messages: Console) -> Summary:
    """Run an experiment and show how it goes; the one place that handles Ctrl-C."""
    try:
        # The runner brings the learning libraries, which take seconds to import; `auxo --help` should not wait.
        from auxo.experiments.runner import run_experiment  # noqa: PLC0415

        with show_progress(Budget.of(config), messages) as show:
            on_event = _announcing(show, messages, f"writing to {directory.path}")
            return run_experiment(config, directory, on_event, lambda note: _print_note(note, messages))
    except ConfigError:  # found only with the data at hand
        directory.discard()
        raise
    except KeyboardInterrupt:
        typer.echo(f"auxo: interrupted; the report of what was done so far: {write_report(directory)}", err=True)
        raise typer.Exit(_INTERRUPTED) from None


def _print_note(note: str, messages: Console) -> None:
    messages.print(f"note: {note}", highlight=False, markup=False, soft_wrap=True)


def _announcing(show: OnEvent, messages: Console, words: str) -> OnEvent:
    """Return ``show`` with a line before the first event: a run that cannot begin should not claim that it does."""
    is_announced = False

    def on_event(method: str, event: Event) -> None:
        nonlocal is_announced
        if not is_announced:
            messages.print(words, highlight=False, markup=False, soft_wrap=True)
            is_announced = True
        show(method, event)

    return on_event


def _show_result(summary: Summary, directory: RunDirectory) -> None:
    console = Console()
    events = directory.events("auxo").events
    if events:
        console.print("", cohort_tree_text(events), sep="\n")
    console.print("", comparison_table(summary), sep="\n")


def _all_overrides(
    overrides: Sequence[str] | None,
    population: Path | None,
    engine: str | None = None,
    ray_address: str | None = None,
    data: Path | None = None,
) -> list[str]:
    """Return --population and the like as the settings they stand for, then what --set says."""
    settings = []
    if population is not None:
        settings += ["population.source=file", f"population.file={toml_value(population)}"]
    if data is not None:
        settings += [f"population.data={toml_value(data)}"]
    if engine is not None:
        settings += [f"run.engine={engine}"]
    if ray_address is not None:
        settings += [f"run.ray_address={toml_value(ray_address)}"]
    return [*settings, *(overrides or ())]


def _free_directory(config: Config) -> Path:
    """Return runs/NAME-SEED, or the first of runs/NAME-SEED-2, -3 ... that is not taken."""
    first = Path("runs") / f"{config.name}-{config.seed}"
    candidates = chain([first], (first.with_name(f"{first.name}-{number}") for number in count(2)))
    return next(path for path in candidates if not path.exists())


def _message(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)
