"""The command `auxo predict`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from auxo.commands.command_group import examples
from auxo.commands.using_runs import Data, Method, Model, MostSamples, OutTable, Run, check_out, opened_run, write_table
from auxo.core.types import CohortId
from auxo.files.errors import FileError

if TYPE_CHECKING:
    from auxo.api.finished_run import FinishedRun
    from auxo.population.federated_data import FederatedData

EXAMPLES = examples(
    "auxo predict runs/study new-clients.csv",
    "auxo predict runs/study new-clients.csv --out predictions.csv",
    "auxo predict runs/study clients.csv --by-name  # clients of the run: each with the model of its own cohort",
)


def predict(  # noqa: PLR0913, PLR0917 - one for each option
    run_directory: Run,
    data: Data,
    cohort: Annotated[
        str | None, typer.Option(metavar="COHORT", help="Use this cohort's model for everybody; nobody is placed.")
    ] = None,
    by_name: Annotated[
        bool, typer.Option("--by-name", help="DATA has clients of the run: take their cohorts from its clients.csv.")
    ] = False,
    method: Method = None,
    model: Model = None,
    samples: MostSamples = 100,
    out: OutTable = None,
) -> None:
    """Predict the labels of clients' samples, each with the model of its client's cohort.

    RUN is the directory of a finished run, DATA a file with clients' samples, as for `auxo run --population`. Clients
    are placed by their training samples first, as `auxo place` does it. Inputs are prepared as those of the run were:
    give them as they are. In the table, a sample's number is its place among its client's rows in DATA, from 0.
    """
    check_out(out)
    run = opened_run(run_directory, method, model)
    clients = run.opened(data)
    cohorts, how = _cohorts(run, clients, cohort, by_name, samples)
    found = run.predict_all(clients, cohorts)
    labels, predicted = run.label_names(found.label), run.label_names(found.predicted)
    write_table(
        out,
        ("name", "cohort", "sample", "split", "label", "prediction"),
        zip(
            (clients.client_names[row] for row in found.client.tolist()),
            (cohorts[row] for row in found.client.tolist()),
            found.sample.tolist(),
            ("test" if is_test else "train" for is_test in found.is_test.tolist()),
            labels.tolist(),
            predicted.tolist(),
            strict=True,
        ),
    )
    typer.echo(
        f"{len(found.label)} samples of {clients.n_clients} clients, {how}; {100 * found.accuracy:.1f} % of the "
        f"{int(found.is_test.sum())} test samples are predicted right{'' if out is None else f'; table: {out}'}",
        err=True,
    )


def _cohorts(
    run: "FinishedRun", clients: "FederatedData", cohort: str | None, by_name: bool, samples: int
) -> tuple[Sequence[CohortId], str]:
    """Return the cohort of each client, and in words how it was found."""
    if cohort is not None and by_name:
        raise FileError("--cohort and --by-name: expected one of them, got both; leave one out")
    if cohort is not None:
        if cohort not in run.tree.leaves:
            raise FileError(f"--cohort {cohort}: expected one of {', '.join(run.tree.leaves)}, which have models")
        return [CohortId(cohort)] * clients.n_clients, f"all with the model of {cohort}"
    if by_name:
        unknown = [name for name in clients.client_names if name not in run.clients]
        if unknown:
            raise FileError(
                f"--by-name: expected clients that were evaluated in the run, got {len(unknown)} others, such as "
                f"{unknown[0]!r}; leave --by-name out to place them by their samples"
            )
        return [run.clients[name].cohort for name in clients.client_names], "in the cohorts that they had in the run"
    placed = run.place_all(clients, most_samples=samples)
    return placed.cohort, f"placed with {placed.models.sum()} models tried"
