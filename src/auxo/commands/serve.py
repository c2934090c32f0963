"""The command `auxo serve`."""

from pathlib import Path
from typing import Annotated

import typer

from auxo.commands.command_group import examples
from auxo.commands.options import EngineName, Overrides, RayAddress, all_overrides
from auxo.commands.running import tell_unused
from auxo.experiments.config_file import load_config
from auxo.reporting.federation_report import write_federation_report
from auxo.reporting.message_console import MessageConsole

EXAMPLES = examples(
    "auxo serve study.toml  # goes on where it was, if it has run before",
    "auxo serve study.toml --set service.port=0 --set training.rounds=50",
    "auxo serve study.toml --engine ray --ray-address auto  # cohorts are actors on the nodes of a cluster",
    "auxo clients invite runs/study-service phone-7  # a token for a client",
)


def serve(
    config_file: Annotated[Path, typer.Argument(metavar="CONFIG.toml")],
    overrides: Overrides = None,
    engine: EngineName = None,
    ray_address: RayAddress = None,
) -> None:
    """Serve a federation to real clients over HTTP: a coordinator, and a process for each cohort.

    CONFIG.toml names the initial model (service.model), and one method. Clients take part by `auxo.connect`.
    Everything is kept in service.directory: the same command goes on after Ctrl-C, a crash, or a loss of power.
    A process that dies is started again within seconds, and loses at most the round that it was in.
    It ends when all cohorts have trained their rounds; Ctrl-C ends it before.
    """
    # It brings the web framework, which takes a moment to import; `auxo --help` should not wait.
    from auxo.service.keeper import Keeper  # noqa: PLC0415
    from auxo.service.outcome import write_cohort_models  # noqa: PLC0415
    from auxo.service.plan import plan_of  # noqa: PLC0415

    config, messages = load_config(config_file, all_overrides(overrides, None, engine, ray_address)), MessageConsole()
    tell_unused([config], messages)
    plan = plan_of(config)
    keeper = Keeper(plan, typer.echo)
    try:
        with keeper.running():
            keeper.run()
    except KeyboardInterrupt:
        typer.echo(f"auxo: all rounds that were closed are kept; to go on: auxo serve {config_file}", err=True)
        raise
    write_cohort_models(plan)
    typer.echo(f"models: {plan.directory / 'models'}\nreport: {write_federation_report(plan.directory)}")
