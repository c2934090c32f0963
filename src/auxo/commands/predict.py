"""The command `auxo predict`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

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
from auxo.core.metric import ACCURACY
from auxo.core.types import CohortId
from auxo.files.errors import FileError
from auxo.reporting.number_format import plain, score

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from auxo.api.finished_run import FinishedRun
    from auxo.api.new_clients import NewClients
    from auxo.api.predictions import Predictions
    from auxo.experiments.placing import Placed

EXAMPLES = examples(
    "auxo predict runs/study new-clients.csv",
    "auxo predict runs/study new-clients.csv --out predictions.csv",
    "auxo predict runs/study clients.csv --by-name  # clients of the run: each with the model of its own cohort",
)


def predict(  # noqa: PLR0913, PLR0917 - one for each option
    run_directory: RunArgument,
    data: DataArgument,
    cohort: Annotated[
        str | None, typer.Option(metavar="COHORT", help="Use this cohort's model for everybody; nobody is placed.")
    ] = None,
    by_name: Annotated[
        bool, typer.Option("--by-name", help="DATA has clients of the run: take their cohorts from its clients.csv.")
    ] = False,
    method: MethodOption = None,
    model: ModelOption = None,
    inputs: InputsOption = None,
    classes: ClassesOption = None,
    samples: MostSamples = 100,
    all_classes: Annotated[
        bool, typer.Option("--probabilities", help="A column for each class or label: how likely the model holds it.")
    ] = False,
    out: OutTable = None,
) -> None:
    """Predict the labels of clients' samples, each with the model of its client's cohort.

    RUN is the directory of a finished run, or of a federation on Flower, which needs --model, --inputs and --classes.
    DATA is a file with clients' samples, as for `auxo run --population`. Clients
    are placed by their training samples first, as `auxo place` does it. Inputs are prepared as those of the run were:
    give them as they are. Rows of a table may be without a label; those that have one place their client. In the
    output, `row` is the sample's row in DATA, from 0, and `probability` how likely the model holds its prediction to
    be. `sure` says whether the client's samples tell its cohort from the next best: see `auxo place` for the losses.
    """
    run, clients = opened(run_directory, data, OpenedBy(method, model, inputs, classes), out)
    cohorts, how, placed = _cohorts(run, clients, cohort, by_name, samples)
    found = run.predict_all(clients, cohorts)
    names = clients.data.client_names
    columns = _columns(run, found) | _likely(run, found, all_classes)
    if placed is not None:
        surely, margins = sure(placed), known(placed.margin)
        columns |= {
            "sure": [surely[row] for row in found.client.tolist()],
            "margin": [margins[row] for row in found.client.tolist()],
        }
    write_table(
        out,
        ("name", "cohort", "row", "split", *columns),
        zip(
            (names[row] for row in found.client.tolist()),
            (cohorts[row] for row in found.client.tolist()),
            found.row.tolist(),
            _splits(found),
            *columns.values(),
            strict=True,
        ),
    )
    told = f"{len(found.row)} samples of {len(names)} clients, {how}; {_how_well(found)}{told_where(out)}"
    typer.echo(told, err=True)


def _splits(found: "Predictions") -> list[str]:
    """Return which samples' labels may have decided about the cohort (train), and which not; empty without a label."""
    flags = zip(found.is_test.tolist(), found.is_labelled.tolist(), strict=True)
    return [("test" if is_test else "train") if is_labelled else "" for is_test, is_labelled in flags]


def _columns(run: "FinishedRun", found: "Predictions") -> dict[str, list[object]]:
    """Return the columns that tell labels and predictions; a label that nobody knows is empty."""
    if run.task == "classification":
        told = {"label": run.label_names(found.label).tolist(), "prediction": run.label_names(found.predicted).tolist()}
    elif run.task == "multi-label":
        told = {"label": _sets(run, found.label), "prediction": _sets(run, found.predicted)}
    elif len(run.targets) == 1:
        told = {"label": _numbers(found.label[:, 0]), "prediction": _numbers(found.predicted[:, 0])}
    else:
        told = {f"label {name}": _numbers(found.label[:, place]) for place, name in enumerate(run.targets)}
        told |= {f"prediction {name}": _numbers(found.predicted[:, place]) for place, name in enumerate(run.targets)}
    known = found.is_labelled.tolist()
    return {
        name: [value if is_known else "" for value, is_known in zip(column, known, strict=True)]
        if name.startswith("label")
        else column
        for name, column in told.items()
    }


def _likely(run: "FinishedRun", found: "Predictions", all_classes: bool) -> dict[str, list[object]]:
    """Return the columns that tell how likely the model holds a prediction, and each class, to be."""
    likely = found.probabilities
    if likely is None:
        if all_classes:
            raise FileError(
                "--probabilities: expected a run that learns classes or labels by the cross entropy, got one of "
                "numbers, or with a loss of its own; leave it out"
            )
        return {}
    columns = {} if run.task != "classification" else {"probability": _rounded(likely.max(axis=1).tolist())}
    if all_classes:
        names = run.targets or [str(number) for number in range(likely.shape[1])]
        each = zip(names, likely.T.tolist(), strict=True)
        columns |= {f"probability {name}": _rounded(column) for name, column in each}
    return columns


def _rounded(values: Sequence[float]) -> list[object]:
    return [f"{value:.4f}" for value in values]


def _sets(run: "FinishedRun", flags: "NDArray[Any]") -> list[str]:
    return [";".join(name for name, has in zip(run.targets, row, strict=True) if has) for row in flags.tolist()]


def _numbers(values: "NDArray[Any]") -> list[str]:
    return [f"{value:.6g}" for value in values.tolist()]


def _how_well(found: "Predictions") -> str:
    tests, unknown = int((found.is_test & found.is_labelled).sum()), int((~found.is_labelled).sum())
    if tests == 0:
        return f"{unknown} of them have no label, and none with a label was held out"
    if found.metric == ACCURACY:
        words = f"{100 * found.score:.1f} % of the {tests} test samples with a label are predicted right"
    else:
        told = plain(score(found.score, found.metric))
        words = f"{found.metric.name} {told} on the {tests} test samples with a label"
    return words + (f", {unknown} have none" if unknown else "")


def _cohorts(
    run: "FinishedRun", clients: "NewClients", cohort: str | None, by_name: bool, samples: int
) -> "tuple[Sequence[CohortId], str, Placed | None]":
    """Return the cohort of each client, in words how it was found, and by what, if it was found by their samples."""
    if cohort is not None and by_name:
        raise FileError("--cohort and --by-name: expected one of them, got both; leave one out")
    names = clients.data.client_names
    if cohort is not None:
        if cohort not in run.tree.leaves:
            raise FileError(f"--cohort {cohort}: expected one of {', '.join(run.tree.leaves)}, which have models")
        return [CohortId(cohort)] * len(names), f"all with the model of {cohort}", None
    if by_name:
        unknown = [name for name in names if name not in run.clients]
        if unknown:
            raise FileError(
                f"--by-name: expected clients that were evaluated in the run, got {len(unknown)} others, such as "
                f"{unknown[0]!r}; leave --by-name out to place them by their samples"
            )
        return [run.clients[name].cohort for name in names], "in the cohorts that they had in the run", None
    unlabelled = without_labels(clients)
    if unlabelled and len(run.tree.leaves) > 1:
        raise FileError(
            f"{unlabelled[0]!r} and {len(unlabelled) - 1} other clients: expected some samples with labels, which say "
            "where a client belongs, got none; label a few, or use --by-name or --cohort"
        )
    if len(run.tree.leaves) == 1:
        return [run.tree.leaves[0]] * len(names), "all with the one model there is", None
    placed = run.place_all(clients, most_samples=samples)
    return placed.cohort, f"placed with {placed.models.sum()} models tried{unsure(placed, names)}", placed
