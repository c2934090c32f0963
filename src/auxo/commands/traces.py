"""The commands `auxo traces`: make traces of devices from published files, and look at what is in them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from auxo.commands.command_group import examples
from auxo.commands.traces_drawing import pictures, write_traces_page
from auxo.files.errors import FileError
from auxo.simulation.availability import DayNightPattern
from auxo.traces.capacity import read_capacity
from auxo.traces.fedscale import read_fedscale_availability, read_fedscale_capacity
from auxo.traces.flash import read_flash
from auxo.traces.synthetic import synthetic_trace
from auxo.traces.trace import Trace
from auxo.traces.trace_file import read_trace, write_trace

traces_app = typer.Typer(
    no_args_is_help=True,
    epilog=examples(
        "auxo traces convert flash flash.npz phones.arrow  # sessions of real phones",
        "auxo traces describe phones.arrow  # how often on line, when, how fast",
        "auxo traces synthetic made-up.arrow --clients 1000  # the same from the built-in generator",
        "auxo traces describe phones.arrow made-up.arrow --html traces.html  # side by side",
        "auxo run --set devices.availability=trace --set devices.availability_file=phones.arrow  # use it",
    ),
)
convert_app = typer.Typer(
    no_args_is_help=True,
    epilog=examples(
        "auxo traces convert fedscale client_device_capacity client_behave_trace fedscale.arrow",
        "auxo traces convert flash flash.npz phones.arrow",
        "auxo traces convert capacity training_latency.parquet speeds.arrow",
    ),
)
traces_app.add_typer(convert_app, name="convert")

Out = Annotated[Path, typer.Argument(metavar="OUT", help="Trace file to write; it appears when it is complete.")]
Seed = Annotated[int, typer.Option(min=0, help="Everything random follows from it.")]


@traces_app.callback()
def traces() -> None:
    """Traces of real devices: when they are on line and how fast they are.

    A trace file has a row for each device, with its sessions, its speeds, or both. A run uses it with the settings
    devices.kind = "trace" and devices.availability = "trace".
    """


@convert_app.callback()
def convert() -> None:
    """Make a trace file from files that others have published."""


@convert_app.command(
    epilog=examples(
        "auxo traces convert fedscale client_device_capacity client_behave_trace fedscale.arrow",
        "auxo traces convert fedscale capacity.pkl availability.pkl fedscale.arrow --skip-bad",
    )
)
def fedscale(
    capacity: Annotated[Path, typer.Argument(metavar="CAPACITY.pkl", help="Computation and communication.")],
    availability: Annotated[Path, typer.Argument(metavar="AVAILABILITY.pkl", help="When devices were active.")],
    out: Out,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave devices out that cannot be used, instead of stopping at one.")
    ] = False,
) -> None:
    """Convert FedScale's two pickled files, without executing them.

    Only plain data are read; a file that holds anything else is refused. Both numbers of a device become seconds to
    train a sample (three times what inference takes) and bit/s, the same for download and upload.
    """
    speeds, bad_speeds = read_fedscale_capacity(capacity, skip_bad)
    sessions, bad_sessions = read_fedscale_availability(availability, skip_bad)
    for error in filter(None, (bad_speeds, bad_sessions)):
        typer.echo(f"left out devices that cannot be used; the first: {error}", err=True)
    _write(Trace(sessions, speeds), out)


@convert_app.command(epilog=examples("auxo traces convert flash flash.npz phones.arrow"))
def flash(
    file: Annotated[Path, typer.Argument(metavar="FILE.npz", help="Arrays device, offset, active, inactive, ...")],
    out: Out,
) -> None:
    """Convert sessions of phones that are kept as numpy arrays, as the FLASH study recorded them.

    Times are moved so that second 0 is midnight where the phone was.
    """
    _write(Trace(sessions=read_flash(file)), out)


@convert_app.command(
    epilog=examples(
        "auxo traces convert capacity training_latency.parquet speeds.arrow",
        "auxo traces convert capacity training_latency.parquet speeds.arrow --bandwidth mobiperf.parquet",
    )
)
def capacity(
    latency: Annotated[Path, typer.Argument(metavar="LATENCY.parquet", help="Columns model and resnet_ms.")],
    out: Out,
    bandwidth: Annotated[
        Path | None,
        typer.Option(metavar="FILE.parquet", help="Draw bandwidths from this table (network, down_kbps_mean) instead."),
    ] = None,
    seed: Seed = 0,
) -> None:
    """Convert a table of phones' training times; zero stands for not measured.

    Bandwidths are not in the table. They are drawn from the distribution published for mobile populations, because
    tables of bandwidths are of those who cared to measure.
    """
    _write(Trace(speeds=read_capacity(latency, bandwidth, seed)), out)


@traces_app.command(
    epilog=examples(
        "auxo traces synthetic made-up.arrow", "auxo traces synthetic made-up.arrow --clients 20000 --share 0.1"
    )
)
def synthetic(
    out: Out,
    clients: Annotated[int, typer.Option(min=1, help="Devices in the trace.")] = 1000,
    seed: Seed = 0,
    share: Annotated[float, typer.Option(help="Mean share on line, above 0 and at most 1.")] = DayNightPattern().share,
    days: Annotated[int, typer.Option(min=1, max=366, help="Length of the span.")] = 7,
) -> None:
    """Write what the built-in generator gives, to hold it against a trace of real devices."""
    if not 0 < share <= 1:
        raise typer.BadParameter(f"expected a share above 0 and at most 1, got {share}", param_hint="--share")
    _write(synthetic_trace(clients, seed, share, days), out)


@traces_app.command(
    epilog=examples(
        "auxo traces describe phones.arrow",
        "auxo traces describe phones.arrow made-up.arrow  # side by side",
        "auxo traces describe phones.arrow --html phones.html",
    )
)
def describe(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Trace files, compared if there are several.")],
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write a page with the figures and drawings.")
    ] = None,
) -> None:
    """Print figures of trace files and draw when devices are on line and how fast they are."""
    described = _named_apart({file: read_trace(file) for file in files})
    console = Console()
    for picture in pictures(described, is_ascii=console.options.ascii_only):
        console.print(picture, highlight=False)
        console.print()
    if html is not None:
        write_traces_page(described, html)
        typer.echo(f"wrote {html}")


def _named_apart(described: Mapping[Path, Trace]) -> dict[str, Trace]:
    """Return traces by the names of their files, with the folders where that does not tell them apart."""
    names = [file.stem for file in described]
    return {file.stem if names.count(file.stem) == 1 else str(file): trace for file, trace in described.items()}


def _write(trace: Trace, out: Path) -> None:
    if out.exists():
        raise FileError(f"{out}: already exists and is left as it is; choose another path, or remove it")
    write_trace(trace, out)
    parts = [
        f"{len(part.devices):,} devices with {what}"
        for part, what in ((trace.sessions, "sessions"), (trace.speeds, "speeds"))
        if part is not None
    ]
    typer.echo(f"wrote {out}: {', '.join(parts)}; look at it with: auxo traces describe {out}")
