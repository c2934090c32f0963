"""A finished run as something to use: its models by cohort, who belongs where, predictions, scores and figures."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from auxo.api.alike import Alike
from auxo.api.federation_left import METHOD, FederationLeft
from auxo.api.new_clients import NewClients
from auxo.api.plain_arrays import is_frame
from auxo.api.predictions import Predictions, likely_by, predict_clients, predicted_by, scores_of
from auxo.core.cohort_state import CoordinatorState
from auxo.core.cohort_tree import CohortTree
from auxo.core.rng import stream
from auxo.core.types import CohortId, Float32Array, FloatArray, IntArray
from auxo.datasets.table_files import frame_table
from auxo.experiments.config import Config
from auxo.experiments.config_file import parse_config
from auxo.experiments.method_runs import method_runs
from auxo.experiments.model_inputs import ModelInputs
from auxo.experiments.outcome_files import (
    COLUMNS,
    ClientRow,
    MethodFolders,
    model_file,
    read_client_table,
    read_coordinator,
    read_model,
    read_tree,
)
from auxo.experiments.placing import MOST_SAMPLES, Placed, place_newcomers
from auxo.experiments.run_directory import RunDirectory, is_federation
from auxo.experiments.stamp import Stamp
from auxo.experiments.summary import BASE, ORACLE, Losers, Summary, evaluations
from auxo.files.errors import FileError, file_error
from auxo.models.catalogue import make_trainer
from auxo.population.federated_data import FederatedData, samples_by_client
from auxo.population.preparation import LearningTask, Preparation
from auxo.protocol.messages import CheckIn
from auxo.registry.import_path import path_of
from auxo.registry.registry import short_name
from auxo.reporting.number_format import counted
from auxo.runtime.client import Client
from auxo.training.stored_models import Tensors, stored, tensors_by_name
from auxo.training.trainer import Trainer

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class Place:
    """Where a client belongs, and how it was found out."""

    cohort: CohortId
    models: int = 0  # that were tried on the client's samples; 0: its record or the run's table said it
    samples: int = 0  # that each of these was tried on
    margin: float | None = None  # by how much the next best model that was tried has a larger loss; None: no other
    # False: its record leads there by a draw or a prediction only, or its samples hardly tell two models apart.
    is_sure: bool = True
    losses: Mapping[str, float] = field(default_factory=dict)  # mean under the model of each cohort that was tried


@dataclass(frozen=True)
class CohortModel:
    """The model of one cohort."""

    cohort: CohortId
    path: Path  # of the safetensors file
    weights: Float32Array = field(repr=False)  # flat, in the order of the trainable parameters
    _trainer: Trainer = field(repr=False)
    _alike: Alike = field(repr=False)

    @property
    def tensors(self) -> Tensors:
        """Return the parameters by their names, as in the file."""
        return tensors_by_name(stored(self._trainer, self.weights))

    def module(self) -> Any:
        """Return a torch module of its own with the cohort's weights, ready to predict.

        Raises:
            TypeError: the model is none of torch's.
        """
        build = getattr(self._trainer, "module", None)
        if build is None:
            raise TypeError(
                "module: expected a model of torch, got softmax regression in numpy; its tensors are those of "
                "torch.nn.Linear"
            )
        return build(self.weights)

    def predict(self, x: object) -> NDArray[Any]:
        """Return the predicted label of each input, by name where the run knows names.

        For other tasks it returns the predicted numbers, in the units that the run was given, or which labels an input
        has: (inputs,) if it is one, (inputs, targets) if there are several, in the order of `FinishedRun.targets`.
        Inputs are as the run was given them, before they were standardised; the same is done to them here.

        Raises:
            ValueError: they are not such as the model takes.
        """
        return self._alike.shown(predicted_by(self._trainer, self.weights, self._alike.samples(x), self._alike.done))

    def probabilities(self, x: object) -> FloatArray:
        """Return how likely the model holds each class or label to be, (inputs, classes); see `FinishedRun.targets`.

        Raises:
            ValueError: inputs are not such as the model takes, or its outputs are no probabilities.
        """
        found = likely_by(self._trainer, self.weights, self._alike.samples(x))
        if found is None:
            raise ValueError(
                "probabilities: expected classes or labels that are learned by the cross entropy, got numbers or a "
                "loss of one's own; use predict"
            )
        return found

    def accuracy(self, x: object, y: object) -> float:
        """Return the share of inputs whose label is predicted; where the run has another score, its mean."""
        return float(scores_of(self._trainer, self.weights, self._alike.samples(x), self._alike.answers(y)).mean())


class CohortModels(Mapping[str, CohortModel]):
    """The models of a method's cohorts by their names; each is read when it is asked for."""

    def __init__(self, run: "FinishedRun") -> None:
        """Give access to the models of ``run``."""
        self._run = run
        self._read: dict[str, CohortModel] = {}

    def __getitem__(self, cohort: str) -> CohortModel:
        if cohort not in self._run.tree.leaves:
            raise KeyError(f"{cohort}: no such cohort; there are: {', '.join(self._run.tree.leaves)}")
        if cohort not in self._read:
            self._read[cohort] = self._run.read_model(CohortId(cohort))
        return self._read[cohort]

    def __iter__(self) -> Iterator[str]:
        return iter(self._run.tree.leaves)

    def __len__(self) -> int:
        return len(self._run.tree.leaves)

    def __repr__(self) -> str:
        return f"models of cohorts {', '.join(self)}"


@dataclass(frozen=True)
class _Simulated:
    """What only a simulated run has."""

    directory: RunDirectory
    config: Config
    summary: Summary


class FinishedRun:
    """What a method of a run, or a federation on Flower, has left, to be used.

    Everything is read from the run's directory when it is asked for. ``of`` gives the same for another method. What a
    simulation works out and a federation does not, such as ``config``, ``summary`` and curves, the latter lacks.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        method: str | None = None,
        model: object = None,
        inputs: ModelInputs | None = None,
    ) -> None:
        """Open a run.

        Args:
            path: its directory; that of a federation is the ``directory`` of its `AuxoStrategy`.
            method: whose models and cohorts are meant; None: Auxo, or else the first that is neither base nor oracle,
                which must have come to its end.
            model: the class or function that makes the model, where the configuration's path does not lead to it, as
                after a run from a notebook; an import path will do, too. A federation needs it to place and predict.
            inputs: what the model of a federation's app takes; a simulated run knows it.

        Raises:
            FileNotFoundError: there is no run.
            FileError: a file of it is damaged, or the method has not come to its end.
            ValueError: it has no such method, or knows itself what its model takes.
        """
        self._model, self._inputs = model, inputs
        self._kept: FinishedRun | None = None
        if is_federation(Path(path)):
            if method not in (None, METHOD):
                raise ValueError(f"method: expected {METHOD}, the only one of a federation, got {method!r}")
            named = None if model is None else model if isinstance(model, str) else model_path(model)
            self._left: _Simulated | FederationLeft = FederationLeft(Path(path), named, inputs)
            self.method: str = METHOD
            self.methods: tuple[str, ...] = (METHOD,)
            return
        if inputs is not None:
            raise ValueError(f"inputs: expected none, as {path} has its own in model.json; leave it out")
        directory = RunDirectory.open(Path(path))
        config = parse_config(directory.config_text(), source=str(path))
        found = directory.read_summary()
        finished = () if found is None else tuple(found.finished)
        if found is None or not finished:
            raise file_error(path, "methods", "one that has come to its end", "none", "let the run finish")
        self._left = _Simulated(directory, config, found)
        self.methods = finished
        self.method = featured(self._expected()) if method is None else method
        if method is None and self.method not in finished:
            raise file_error(
                path,
                "methods",
                f"the end of {self.method}",
                f"a run that has come to that of {', '.join(finished)} only",
                f"let it finish with `auxo resume {path}`, or name another (--method {finished[0]}; in Python method=)",
            )
        if self.method not in finished:
            raise ValueError(f"method: expected one of {', '.join(finished)}, which have finished, got {method!r}")

    def _expected(self) -> tuple[str, ...]:
        """Return the methods that the run was to come to the end of; where it has, those that took part."""
        if self.summary.status == "finished":
            return self.methods
        asked = tuple(short_name(method) for method in self.config.methods)
        return tuple(method for method in asked if method not in self.summary.refused)

    @property
    def is_federation(self) -> bool:
        """Return whether it is a federation on Flower."""
        return isinstance(self._left, FederationLeft)

    @property
    def config(self) -> Config:
        """Return the configuration."""
        return self._simulated.config

    @property
    def summary(self) -> Summary:
        """Return where each method ended."""
        return self._simulated.summary

    @property
    def _directory(self) -> RunDirectory:
        return self._simulated.directory

    @property
    def _simulated(self) -> _Simulated:
        """Return what only a simulated run has.

        Raises:
            TypeError: it is none.
        """
        if isinstance(self._left, FederationLeft):
            raise TypeError(
                f"{self.path}: expected a simulated run for this, got a federation on Flower, which has its tree, "
                "clients and models; its events and its report have the rest"
            )
        return self._left

    @property
    def _folders(self) -> MethodFolders:
        return self._left if isinstance(self._left, FederationLeft) else self._left.directory

    def __repr__(self) -> str:
        found = counted(len(self.tree.leaves), "cohort")
        if self.is_federation:
            return f"federation {self.path}: {found}, {counted(len(self.clients), 'node')}"
        what = f"run {self.path} of {self.summary.population}: {self.method}, {found}"
        done = filter(None, (what, self.preparation.words()))
        return "\n".join(("; ".join(done), *(f"note: {words}" for words in self.summary.notes)))

    @property
    def path(self) -> Path:
        """Return the run's directory."""
        return self._left.path if isinstance(self._left, FederationLeft) else self._left.directory.path

    @property
    def n_params(self) -> int:
        """Return the number of a model's trainable parameters."""
        return self._trainer.n_params

    def of(self, method: str) -> "FinishedRun":
        """Return the same run for another method.

        Raises:
            ValueError: it has no such method.
        """
        other = FinishedRun(self.path, method=method, model=self._model, inputs=self._inputs)
        other._kept = self  # a directory that goes with this object is to stay as long as the other is used
        return other

    @cached_property
    def stamp(self) -> Stamp | None:
        """Return with what, on what and when the run was made."""
        return self._directory.read_stamp()

    @cached_property
    def tree(self) -> CohortTree:
        """Return the tree of cohorts; its ``leaves`` have the models."""
        return read_tree(self._folders, self.method)

    @cached_property
    def clients(self) -> dict[str, ClientRow]:
        """Return what the run says of each client, by name; those that were not evaluated are not in it."""
        return {row.name: row for row in read_client_table(self._folders, self.method)}

    @property
    def losers(self) -> Losers | None:
        """Return who is worse off than with the base; None where that cannot be told."""
        return self.summary.methods[self.method].losers

    @cached_property
    def coordinator(self) -> CoordinatorState:
        """Return the coordinator's state at the end of the run."""
        names = {short_name(one): one for one in self.config.methods}
        # Which groups the oracle is told makes no difference to what its states are.
        example = replace(self._alike.inputs.example(), groups=np.zeros(1, dtype=np.int64))
        (first, *_) = method_runs(names[self.method], self.config, example, self._trainer.layers)
        return read_coordinator(self._directory, self.method, first.rules.own_states)

    @cached_property
    def models(self) -> CohortModels:
        """Return the models of the cohorts, by name."""
        return CohortModels(self)

    def read_model(self, cohort: CohortId) -> CohortModel:
        """Return one cohort's model, read anew.

        Raises:
            FileError: it is missing or damaged.
        """
        if isinstance(self._left, FederationLeft):
            weights = self._left.weights(cohort)
        else:
            weights = read_model(self._folders, self.method, cohort, self._trainer)
        path = model_file(self._folders, self.method, cohort)
        return CohortModel(cohort, path, weights, self._trainer, self._alike)

    def scores(self) -> dict[str, NDArray[Any]]:
        """Return what clients.csv says as arrays by column, one entry a client; NaN where it says nothing."""
        rows = self.clients.values()
        columns: dict[str, list[Any]] = {name: [getattr(row, name) for row in rows] for name in COLUMNS}
        return {
            name: np.array([np.nan if value is None else value for value in column]) for name, column in columns.items()
        }

    def frame(self) -> "DataFrame":
        """Return the same as a data frame, with a row for each client.

        Raises:
            ModuleNotFoundError: pandas is not installed.
        """
        from pandas import DataFrame  # noqa: PLC0415 - optional

        return DataFrame(self.scores()).set_index("name")

    def curve(self, method: str | None = None) -> dict[str, NDArray[Any]]:
        """Return a method's evaluations as arrays: simulated time, rounds, participations and accuracies."""
        told = evaluations(self._directory.events(method or self.method).events)
        columns = ("time_s", "round", "participations", "accuracy", "worst_10", "best_10", "variance")
        return {name: np.array([getattr(one, name) for one in told]) for name in columns}

    @property
    def figures(self) -> dict[str, str]:
        """Return the report's figures as SVG documents, by name."""
        from auxo.reporting.standalone import figures_of  # noqa: PLC0415 - only who wants them needs it

        return figures_of(self._directory)

    def place(self, client: object, y: object = None, *, most_samples: int = MOST_SAMPLES) -> Place:
        """Return the cohort that a client belongs to.

        Args:
            client: its inputs, as the run was given such, with ``y``; or its name, if it was in the run; or its own
                record: a `Client`, or what that says at check-in.
            y: labels of the inputs.
            most_samples: that each model is tried on, at most.

        Raises:
            KeyError: the run knows no client of this name.
            ValueError: the samples are not such as models take, or the record says nothing.
        """
        if isinstance(client, Client | CheckIn):
            return self._place_by_record(client)
        if isinstance(client, str):
            if client not in self.clients:
                raise KeyError(f"{client}: no client of this name was evaluated in the run; give its samples instead")
            return Place(self.clients[client].cohort, is_sure=not self.clients[client].lost)
        if y is None:
            raise ValueError("y: expected the labels of the client's samples, to try models on, got none")
        placed = self.place_all(_one_client(self._alike, client, y), most_samples=most_samples)
        margin = float(placed.margin[0])
        models, samples = int(placed.models[0]), int(placed.samples[0])
        tried = zip(self.tree.leaves, placed.losses[0].tolist(), strict=True)
        losses = {str(cohort): loss for cohort, loss in tried if not np.isnan(loss)}
        is_sure = bool(placed.is_sure[0])
        return Place(placed.cohort[0], models, samples, None if np.isnan(margin) else margin, is_sure, losses)

    def place_all(self, clients: NewClients, *, most_samples: int = MOST_SAMPLES) -> Placed:
        """Return the cohort of every client that `opened` has made alike to the run's, by its samples with labels.

        Raises:
            ValueError: a client has no labelled samples to compare models by.
        """
        weights = {cohort: self.models[cohort].weights for cohort in self.tree.leaves}
        return place_newcomers(self.tree, weights, self._trainer, clients.data, most_samples)

    def opened(self, data: object) -> NewClients:
        """Return clients' samples, from a file or as `auxo.simulate` takes them, as the run's models take them.

        Where the run was trained on a table of numbers, rows of another table may be without a label.

        Raises:
            FileError: the file cannot be used, or its samples are not such as the run was trained on.
            ValueError: the same of samples from Python.
        """
        if isinstance(data, str | Path):
            return self._alike.opened(Path(data))
        from auxo.api.client_data import population_from  # noqa: PLC0415 - only who has such data needs it

        clients = self._alike.of_table(frame_table(data, "clients")) if is_frame(data) else None
        if clients is None:
            made = population_from(data, like=self._alike.done)
            clients = NewClients.all_labelled(self._alike.population(made))
        for words in clients.notes:
            warnings.warn(words, RuntimeWarning, stacklevel=2)
        return clients

    def predict(self, x: object, cohort: str | Place) -> NDArray[Any]:
        """Return the labels that a cohort's model predicts for inputs; see `CohortModel.predict`."""
        return self.models[cohort.cohort if isinstance(cohort, Place) else cohort].predict(x)

    def probabilities(self, x: object, cohort: str | Place) -> FloatArray:
        """Return how likely a cohort's model holds each class or label to be; see `CohortModel.probabilities`."""
        return self.models[cohort.cohort if isinstance(cohort, Place) else cohort].probabilities(x)

    def predict_all(self, clients: NewClients, cohorts: Sequence[CohortId]) -> Predictions:
        """Return what is predicted for every sample of clients that `opened` has returned, by their cohorts' models."""
        weights = {cohort: self.models[cohort].weights for cohort in dict.fromkeys(cohorts)}
        return predict_clients(clients, cohorts, weights, self._trainer)

    @property
    def preparation(self) -> Preparation:
        """Return what was done to the inputs, and is done to those that are given."""
        return self._alike.done

    @property
    def task(self) -> LearningTask:
        """Return what the models were trained for."""
        return self._alike.inputs.task

    @property
    def targets(self) -> tuple[str, ...]:
        """Return the names of the classes, of the numbers that are predicted, or of the labels a sample may have."""
        return self._alike.done.classes

    def label_names(self, numbers: IntArray) -> NDArray[Any]:
        """Return labels by name, where the run knows names."""
        return self._alike.names(numbers)

    def _place_by_record(self, client: Client | CheckIn) -> Place:
        check_in = client.check_in(explore=False) if isinstance(client, Client) else client
        wish = check_in.request
        if wish is None:
            raise ValueError("client: expected a record that says where it belongs, got an empty one; give its samples")
        if wish.cohort not in self.tree.index:
            raise ValueError(f"client: expected a record of this run, got one that asks for {wish.cohort}")
        at = np.array([self.tree.index[wish.cohort]])
        rng = stream(0 if self.is_federation else self.config.seed, "placement")
        leaf, vouched = self.tree.resolve(at, np.array([wish.cluster]), np.array([wish.generation]), rng)
        return Place(self.tree.cohorts[int(leaf[0])], is_sure=bool(vouched[0]))

    @cached_property
    def _alike(self) -> Alike:
        if isinstance(self._left, FederationLeft):
            return self._left.alike
        inputs, done = self._directory.read_model_inputs(), self._directory.read_preparation()
        if inputs is None or done is None:
            remedy = "run the experiment again"
            raise file_error(self.path, "files", "model.json and preparation.json", "none", remedy)
        return Alike(inputs, done)

    @cached_property
    def _trainer(self) -> Trainer:
        if isinstance(self._left, FederationLeft):
            return self._left.trainer
        training = self.config.training
        given = self._model
        model = training.model if given is None else given if isinstance(given, str) else model_path(given)
        try:
            return make_trainer(
                model, self._alike.inputs.example(), "one-by-one", training.model_args, training.loss, training.metric
            )
        except (ValueError, ImportError) as error:
            hint = "" if given is not None else "; give it by model=, or with --model"
            raise FileError(f'{self.path}: its model, "{model}", cannot be built: {error}{hint}') from error


def model_path(model: object) -> str:
    """Return the import path of a model that is given as a class, a function, or a module, which is then copied.

    Raises:
        ValueError: it is nothing that makes a model.
    """
    if hasattr(model, "state_dict") and not isinstance(model, type):
        return path_of(_copies_of(model))
    if not callable(model):
        raise ValueError(f"model: expected a class or a function that makes a module, got {type(model).__name__}")
    return path_of(model)


def _copies_of(module: object) -> Callable[[], object]:
    """Return what makes copies of a module: the weights that it has are those a run starts from."""

    def copied() -> object:
        return deepcopy(module)

    copied.__qualname__ = type(module).__name__
    return copied


def featured(methods: Sequence[str]) -> str:
    """Return the method that a run is about: Auxo, or else the first that is neither base nor oracle."""
    others = [method for method in methods if method not in {BASE, ORACLE}]
    return next((one for one in ("auxo", *others) if one in methods), methods[0])


def _one_client(alike: Alike, x: object, y: object) -> NewClients:
    """Return a client whose samples are all there to compare models by."""
    inputs, answers = alike.samples(x), alike.answers(y)
    if len(inputs) != len(answers) or len(answers) == 0:
        raise ValueError(f"y: expected a label for each of {len(inputs)} inputs, and one at least, got {len(answers)}")
    rows, is_class = np.arange(len(answers)), alike.inputs.task == "classification"
    labels = answers if is_class else rows
    train, nothing = samples_by_client(np.zeros_like(rows), labels, np.zeros(len(rows), dtype=np.bool_), clients=1)
    targets = None if is_class else answers
    task, classes, done = alike.inputs.task, alike.inputs.classes, alike.done
    data = FederatedData(
        "client", inputs, train, nothing, classes, ("client",), task=task, targets=targets, preparation=done
    )
    return NewClients.all_labelled(data)
