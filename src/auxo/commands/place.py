"""The command `auxo place`."""

from collections import Counter
from typing import TYPE_CHECKING

import typer

from auxo.commands.command_group import examples
from auxo.commands.using_runs import (
    ClassesOption,
    DataArgument,
    InputsOption,
    MethodOption,
    ModelOption,
    MostSamples,
    OpenedBy,
    OutTable,
    RunArgument,
    known,
    opened,
    sure,
    told_where,
    unsure,
    without_labels,
    write_table,
)
from auxo.files.errors import FileError

if TYPE_CHECKING:
    from auxo.core.types import IntArray

EXAMPLES = examples(
    "auxo place runs/study new-clients.csv",
    "auxo place runs/study new-clients.arrow --out places.csv --samples 20",
)


def place(  # noqa: PLR0913, PLR0917 - one for each option
    run_directory: RunArgument,
    data: DataArgument,
    method: MethodOption = None,
    model: ModelOption = None,
    inputs: InputsOption = None,
    classes: ClassesOption = None,
    samples: MostSamples = 100,
    out: OutTable = None,
) -> None:
    """Tell clients that never trained which cohort they belong to.

    RUN is the directory of a finished run, or of a federation on Flower, which needs --model, --inputs and --classes.
    DATA is a file with clients' samples, as for `auxo run --population`.
    Each client walks down the cohort tree: it tries a few models on its own training samples and goes where the loss is
    least. The table says how sure that is: the mean loss under the model of each cohort that was tried, by how much
    that of the next best is larger (margin), and whether this is beyond the chance of so few samples (sure). It also
    says what it has cost: models downloaded, samples that each was tried on, and seconds of the client's device.
    """
    run, clients = opened(run_directory, data, OpenedBy(method, model, inputs, classes), out)
    # Brings the learning libraries, which take seconds to import; `auxo --help` should not wait.
    from auxo.experiments.world import draw_devices  # noqa: PLC0415

    if unlabelled := without_labels(clients):
        raise FileError(
            f"{data}: expected samples with labels of every client, to compare models by, got none of "
            f"{len(unlabelled)} clients, such as {unlabelled[0]!r}; label a few, or leave these clients out"
        )
    placed = run.place_all(clients, most_samples=samples)
    names = clients.data.client_names
    spent_s = None  # by devices that nobody knows
    if not run.is_federation:
        spent_s = placed.device_s(draw_devices(run.config, len(names)), run.n_params)
    write_table(
        out,
        (
            *("name", "cohort", "sure", "loss", "margin", "next_best", "models", "samples", "device_s"),
            *(f"loss {leaf}" for leaf in run.tree.leaves),
        ),
        zip(
            names,
            placed.cohort,
            sure(placed),
            known(placed.loss),
            known(placed.margin),
            (rival or "" for rival in placed.rival),
            placed.models.tolist(),
            placed.samples.tolist(),
            [""] * len(names) if spent_s is None else (f"{one:.3f}" for one in spent_s),
            *map(known, placed.losses.T),
            strict=True,
        ),
    )
    members = Counter(placed.cohort)
    counts = ", ".join(f"{cohort}: {members[cohort]}" for cohort in run.tree.leaves)
    everything = len(run.tree.leaves) * len(names)
    typer.echo(
        f"{len(names)} clients placed ({counts}); models tried: {placed.models.sum()} "
        f"(all with all would be {everything}), each on {_most(placed.samples)} samples"
        f"{'' if spent_s is None else f', {spent_s.sum():.0f} device-seconds'}{unsure(placed, names)}{told_where(out)}",
        err=True,
    )


def _most(samples: "IntArray") -> str:
    most = int(samples.max(initial=0))
    return str(most) if samples.min(initial=most) == most else f"at most {most}"
