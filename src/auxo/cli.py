"""The command `auxo`: the list of its commands, which are in `auxo.commands`.

A command's module is imported when it is asked for: what it needs takes a second, which `auxo --help` has no use for.
"""

try:
    import typer

    from auxo.commands.command_group import CommandGroup, Listed, examples
    from auxo.commands.stopping import stopped_by_signals
    from auxo.commands.version import auxo
except KeyboardInterrupt:  # there is nothing yet to be stopped
    raise SystemExit(130) from None

COMMANDS = (
    Listed(
        "demo",
        "auxo.commands.demo:demo",
        "Compare one model for all clients, Auxo and known groups on a built-in population.",
    ),
    Listed("run", "auxo.commands.run:run", "Run an experiment and write its report."),
    Listed(
        "resume",
        "auxo.commands.resume:resume",
        "Go on with a run that was interrupted, and end with the same bits as if it had not been.",
    ),
    Listed(
        "compare",
        "auxo.commands.compare:compare",
        "Run an experiment with several seeds, or a grid of them, and compare its methods with the base.",
    ),
    Listed("report", "auxo.commands.report:report", "Write the report of a run again and print where it is."),
    Listed("place", "auxo.commands.place:place", "Tell clients that never trained which cohort they belong to."),
    Listed(
        "predict",
        "auxo.commands.predict:predict",
        "Predict the labels of clients' samples, each with the model of its client's cohort.",
    ),
    Listed(
        "list",
        "auxo.commands.list_parts:list_parts",
        "List what a configuration can name: methods and other parts, models, populations.",
    ),
    Listed("config", "auxo.commands.config:config_app", "See and write configurations."),
    Listed(
        "data",
        "auxo.commands.data:data_app",
        "Bring data sets into a form that is opened at once, and see what is in them.",
    ),
    Listed(
        "traces",
        "auxo.commands.traces:traces_app",
        "Traces of real devices: when they are on line and how fast they are.",
    ),
    Listed("bans", "auxo.commands.bans:bans_app", "See who is banned from a federation, and end bans."),
    Listed(
        "serve",
        "auxo.commands.serve:serve",
        "Serve a federation to real clients over HTTP: a coordinator, and a process for each cohort.",
    ),
    Listed("clients", "auxo.commands.clients:clients_app", "See to the clients of a service: who may take part."),
    Listed("keys", "auxo.commands.keys:keys_app", "See to the keys that a server signs with."),
    Listed(
        "privacy",
        "auxo.commands.privacy:privacy_app",
        "Local privacy: what a budget means in noise, and what noise leaves of the updates.",
    ),
    Listed(
        "flower",
        "auxo.commands.flower:flower_app",
        "Flower apps: run one in this process and its workers, without Ray and without a SuperLink.",
    ),
)
"""Every command: its name, the function or the group that it is, and the first sentence of its help."""


class AuxoCommands(CommandGroup):
    """All commands, in this order."""

    listed = COMMANDS


app = typer.Typer(
    cls=AuxoCommands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples(
        "auxo demo  # see what cohorts bring, on a built-in population",
        "auxo config init study.toml  # write a commented configuration to change",
        "auxo run study.toml  # run it and write a report",
        "auxo resume runs/study-0  # go on after Ctrl-C or a crash",
        "auxo compare study.toml --seeds 3  # run it with three seeds, with confidence intervals",
        "auxo predict runs/study new-clients.csv  # use the models of a run's cohorts",
        "auxo data convert table mine.parquet mine.arrow  # your own clients' data",
    ),
)
app.callback()(auxo)


def main() -> None:
    """Run the command line and exit."""
    with stopped_by_signals():
        from auxo.engines.memory import keep_freed_memory  # noqa: PLC0415 - no time for it before a help page

        keep_freed_memory()
        app(prog_name="auxo")
