"""Simulate a federation from Python: clients and a model in, a finished run out; `auxo run` takes the same path."""

import shutil
import tempfile
import warnings
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from auxo.api.client_data import DataColumns, population_from
from auxo.api.finished_run import FinishedRun, featured, model_path
from auxo.datasets.tables import TableColumns
from auxo.experiments.config_file import parse_config, to_toml
from auxo.experiments.model_inputs import ModelInputs
from auxo.experiments.populations import check_participants, make_population
from auxo.experiments.run_directory import RunDirectory
from auxo.experiments.runner import run_experiment
from auxo.models.catalogue import ModelArgument
from auxo.population.doubts import doubts
from auxo.protocol.events import OnEvent
from auxo.registry.expectation import toml_value


def simulate(  # noqa: PLR0913 - by name, all but the first
    data: object,
    *,
    model: object = "softmax",
    model_args: Mapping[str, ModelArgument] | None = None,
    methods: Sequence[str] = ("base", "auxo"),
    rounds: int | None = None,
    participants: int | None = None,
    seed: int = 0,
    settings: Mapping[str, object] | None = None,
    columns: DataColumns | TableColumns | None = None,
    standardise: bool = True,
    cohorts: "str | Path | FinishedRun | None" = None,
    out: str | Path | None = None,
    name: str = "clients",
    on_event: OnEvent = lambda label, event: None,
) -> FinishedRun:
    """Train a federation of these clients, and return what it came to.

    >>> import numpy as np
    >>> rng = np.random.Generator(np.random.PCG64(0))
    >>> x = rng.normal(size=(30, 20, 3))
    >>> clients = {f"phone-{number}": (one, (one[:, 0] > 0).astype(int)) for number, one in enumerate(x)}
    >>> run = simulate(clients, rounds=5, participants=10, methods=["base"])
    >>> run.summary.status, run.tree.leaves
    ('finished', ('0',))

    Args:
        data: clients and their samples: a mapping or a list of clients, each with ``(x, y)``, ``(x, y, x_test,
            y_test)``, a torch ``Dataset`` or two; a frame of pandas or a Hugging Face data set with a client column; a
            partitioner of flwr-datasets; the path of a file; or a `FederatedData`.
        model: what clients train: a name, an import path, a class or a function that makes a ``torch.nn.Module`` (what
            it calls ``features`` or ``classes`` comes from the data), or a module, whose weights are started from.
        model_args: what the model is built with besides.
        methods: what is run, one after the other.
        rounds: that each cohort trains; None: as the settings say.
        participants: a round; None: as the settings say, but no more than there are clients.
        seed: of all that is random.
        settings: of the configuration, by their names, such as ``{"training.learning_rate": 0.1}``; what
            `auxo config show --explain` lists.
        columns: how data are read that do not say it themselves: `TableColumns` for tables, be they files or frames,
            `DataColumns` for all.
        standardise: shift and scale inputs, the columns of a table each by its own mean and deviation, images by one
            of each; what is done is done again at prediction. A `FederatedData` stays as it is.
        cohorts: a finished run whose cohorts to start from.
        out: new or empty directory for the run; None: one that goes when the result does.
        name: of the population, in reports.
        on_event: is told what happens, with the name of the method it happens to.

    Warns:
        RuntimeWarning: what has to be known before the figures are believed, such as that labels begin at 1, or that no
            partition is possible in so few rounds; ``print(run)`` says the latter again.

    Raises:
        ConfigError: a setting does not exist, or does not fit the data.
        ValueError: the data are of no form that is known, or do not fit together.
        FileError: the same of a file.
    """
    found = cohorts.path if isinstance(cohorts, FinishedRun) else cohorts
    wanted = {
        "seed": seed,
        "methods": list(methods),
        **({} if rounds is None else {"training.rounds": rounds}),
        **({} if participants is None else {"training.participants": participants}),
        **{f"training.model_args.{key}": value for key, value in (model_args or {}).items()},
        **({} if found is None else {"training.cohorts": found}),
        **(settings or {}),
    }
    base: dict[str, object] = {
        "name": "simulation",
        "training.model": model if isinstance(model, str) else model_path(model),
    }
    population = None
    if isinstance(data, str | Path) and columns is None:  # the run can then be resumed
        base |= {"population.source": "file", "population.file": data, "population.standardise": standardise}
    else:
        is_file = isinstance(data, str | Path)
        population = population_from(data, columns, Path(str(data)).stem if is_file else name, standardise=standardise)
        base |= {"population.source": "given", "training.participants": min(200, population.n_clients)}
    overrides = [f"{key}={toml_value(value)}" for key, value in {**base, **wanted}.items()]
    config = parse_config("", overrides, source="settings")
    if population is None:
        population = make_population(config)
    else:
        check_participants(config, population)
    with _directory(out) as path:
        directory = RunDirectory.create(path, to_toml(config))
        summary = run_experiment(config, directory, on_event, data=population)
        # Of a run that has failed, which the warnings say, there may be something to look at all the same.
        method = featured(list(summary.finished)) if summary.finished else None
        result = FinishedRun(path, method=method, model=None if isinstance(model, str) else model)
    if out is None:
        weakref.finalize(result, shutil.rmtree, path, ignore_errors=True)
    for words in (*population.preparation.notes, *doubts(population), *summary.notes):
        warnings.warn(words, RuntimeWarning, stacklevel=2)
    return result


def load(
    path: str | Path, *, method: str | None = None, model: object = None, inputs: ModelInputs | None = None
) -> FinishedRun:
    """Return a finished run, to use its models and cohorts; arguments and errors are those of `FinishedRun`."""
    return FinishedRun(path, method=method, model=model, inputs=inputs)


@contextmanager
def _directory(out: str | Path | None) -> Iterator[Path]:
    """Lend the directory of a run; one of our own goes if the run does not come to its end."""
    if out is not None:
        yield Path(out)
        return
    path = Path(tempfile.mkdtemp(prefix="auxo-"))
    try:
        yield path
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise
