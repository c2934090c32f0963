"""Simulate a federation from Python: clients and a model in, a finished run out; `auxo run` takes the same path."""

import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from auxo.api.client_data import DataColumns, population_from
from auxo.api.finished_run import FinishedRun, model_path
from auxo.experiments.config import Config
from auxo.experiments.config_file import parse_config, to_toml
from auxo.experiments.populations import check_participants
from auxo.experiments.run_directory import RunDirectory
from auxo.experiments.runner import run_experiment
from auxo.models.catalogue import ModelArgument
from auxo.population.federated_data import FederatedData
from auxo.protocol.events import Event, OnEvent
from auxo.registry.expectation import toml_value


def _ignore(label: str, event: Event) -> None:
    """Let an event pass."""


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
    columns: DataColumns | None = None,
    standardise: bool = True,
    cohorts: "str | Path | FinishedRun | None" = None,
    out: str | Path | None = None,
    name: str = "clients",
    on_event: OnEvent = _ignore,
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
            y_test)``, a torch ``Dataset`` or two; a Hugging Face data set with a client column; a partitioner of
            flwr-datasets; the path of a file; or a `FederatedData`.
        model: what clients train: a name, an import path, a class or a function that makes a ``torch.nn.Module`` (what
            it calls ``features`` or ``classes`` comes from the data), or a module, whose weights are started from.
        model_args: what the model is built with besides.
        methods: what is run, one after the other.
        rounds: that each cohort trains; None: as the settings say.
        participants: a round; None: as the settings say, but no more than there are clients.
        seed: of all that is random.
        settings: of the configuration, by their names, such as ``{"training.learning_rate": 0.1}``; what
            `auxo config show --explain` lists.
        columns: how data are read that do not say it themselves.
        standardise: shift and scale inputs; what is done is done again at prediction.
        cohorts: a finished run whose cohorts to start from.
        out: new or empty directory for the run; None: one that goes when the result does.
        name: of the population, in reports.
        on_event: is told what happens, with the name of the method it happens to.

    Raises:
        ConfigError: a setting does not exist, or does not fit the data.
        ValueError: the data are of no form that is known, or do not fit together.
        FileError: the same of a file.
    """
    given = _Given(data, model, columns, standardise, name)
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
    config, population = given.resolved(wanted)
    with _directory(out) as path:
        directory = RunDirectory.create(path, to_toml(config))
        run_experiment(config, directory, on_event, data=population)
        result = FinishedRun(path, model=None if isinstance(model, str) else model)
    if out is None:
        weakref.finalize(result, shutil.rmtree, path, ignore_errors=True)
    return result


def load(path: str | Path, *, method: str | None = None, model: object = None) -> FinishedRun:
    """Return a finished run, to use its models and cohorts.

    Args:
        path: its directory.
        method: whose; None: Auxo's, or else those of the first method that is neither the base nor the oracle.
        model: the class or function that makes the model, where its configuration does not lead to it.

    Raises:
        FileNotFoundError: there is no run.
        FileError: a file of it is damaged, or no method has come to its end.
        ValueError: it has no such method.
    """
    return FinishedRun(path, method=method, model=model)


@dataclass(frozen=True)
class _Given:
    data: object
    model: object
    columns: DataColumns | None
    standardise: bool
    name: str

    def resolved(self, wanted: Mapping[str, object]) -> tuple[Config, FederatedData | None]:
        """Return the whole configuration, and the population where it is none that the configuration can name."""
        model = self.model if isinstance(self.model, str) else model_path(self.model)
        base: dict[str, object] = {"name": "simulation", "training.model": model}
        if isinstance(self.data, str | Path):
            source = {"population.source": "file", "population.file": self.data}
            scaled = {"population.standardise": self.standardise}
            return _config({**base, **source, **scaled, **wanted}), None
        population = population_from(self.data, self.columns, self.name)
        if self.standardise and not isinstance(self.data, FederatedData):
            population = population.standardised()
        base |= {"population.source": "given", "training.participants": min(200, population.n_clients)}
        config = _config({**base, **wanted})
        check_participants(config, population)
        return config, population


def _config(settings: Mapping[str, object]) -> Config:
    return parse_config("", [f"{key}={toml_value(value)}" for key, value in settings.items()], source="settings")


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
