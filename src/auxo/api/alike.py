"""New samples made alike to those that a run's models were trained on: the same columns, scaling and labels."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auxo.api.new_clients import NewClients, read_new_clients
from auxo.api.plain_arrays import is_frame, plain_array
from auxo.core.types import Float32Array, InputArray, IntArray
from auxo.datasets.open_dataset import NPZ, TABLES, arrow_needed, open_dataset
from auxo.datasets.table_categories import categories_of
from auxo.datasets.table_files import TableFile, open_table_file
from auxo.datasets.tables import columns_in_use
from auxo.experiments.model_inputs import ModelInputs
from auxo.files.errors import FileError, file_error
from auxo.files.npz import read_arrays
from auxo.population.federated_data import FederatedData, Samples
from auxo.population.from_arrays import population_from_arrays
from auxo.population.preparation import Preparation


@dataclass(frozen=True)
class Alike:
    """What was done to the samples of a run before its models saw them, to be done to others."""

    inputs: ModelInputs
    done: Preparation

    def opened(self, path: Path) -> NewClients:
        """Return the clients in a file, as the run's models take them; a table is read as the run's own was."""
        is_table = path.suffix.lower() in TABLES or path.is_dir()
        if is_table and path.exists():
            with arrow_needed(path):
                found = self.of_table(open_table_file(path))
                if found is not None:
                    return found
        try:
            if path.suffix.lower() == NPZ and path.exists():
                made = population_from_arrays(read_arrays(path), path.stem, path, like=self.done)
            else:
                made = open_dataset(path)
            return NewClients.all_labelled(self.population(made))
        except FileError as error:
            if not is_table or not path.exists():
                raise
            raise FileError(
                f"{error}; or convert it first as the run's own table was, see `auxo data convert -h`"
            ) from error
        except ValueError as error:
            raise FileError(f"{path}: {error}") from error

    def of_table(self, table: TableFile) -> NewClients | None:
        """Return the clients of a table; where the run's columns have no names, by the names in use.

        None: the run was trained on something else than columns.
        """
        if self.done.columns:
            return read_new_clients(table, self.done)
        client, columns, label = columns_in_use(table) if self.done.by_column else ("", (), ())
        if not columns:
            return None
        if len(columns) != self.inputs.features[0]:
            expected = f"{self.inputs.features[0]} columns of inputs, as the run was trained on"
            raise file_error(table.path, "columns", expected, ", ".join(columns), "leave out what is no input")
        classes = self.done.classes or tuple(str(number) for number in range(self.inputs.classes))
        done = replace(self.done, columns=columns, client=client, label=label, classes=classes)
        return read_new_clients(table, done)

    def population(self, data: FederatedData) -> FederatedData:
        """Return a population as the run's models take it."""
        own = data.preparation
        x: Any = data.x
        if not data.has_tokens and (own.means, own.scales, own.columns) != (
            self.done.means,
            self.done.scales,
            self.done.columns,
        ):
            x = self._ordered(_undone(data), own.columns)
            self._check_shape(x)
            x = self.done.apply(x)
        elif not data.has_tokens:
            x = data.numbers(np.arange(len(data.x)))
        self._check(x)
        if data.task != self.inputs.task:
            raise ValueError(
                f"labels: expected those of {self.inputs.task}, as the run was trained for, got {data.task}"
            )
        is_class = data.targets is None
        return replace(
            data,
            x=x,
            train=self._labelled(data.train, own.classes) if is_class else data.train,
            test=self._labelled(data.test, own.classes) if is_class else data.test,
            targets=None if data.targets is None else self._targets(data.targets, own),
            n_classes=self.inputs.classes,
            scaling=None,
            preparation=self.done,
        )

    def samples(self, x: object) -> InputArray:
        """Return inputs as a user has them as the models take them, (samples, *features); warn of what is far out."""
        values = plain_array(x[list(self.done.columns)] if self.done.columns and is_frame(x) else x)
        if values.dtype.kind not in "biuf":
            raise ValueError(f"x: expected numbers, got {values.dtype}; give what the run was trained on")
        if values.ndim == 1 and self.inputs.features == (1,):
            values = values[:, np.newaxis]
        if self.inputs.kind == "tokens":
            made: InputArray = values.astype(np.int32)
        else:
            self._check_shape(values)
            made = self.done.apply(values)
            if not np.isfinite(made).all():
                raise ValueError("x: expected finite numbers, got NaN or infinity; fill in or drop these samples")
        self._check(made)
        for words in () if made.dtype == np.int32 else self.done.far_out(made):
            warnings.warn(words, RuntimeWarning, stacklevel=4)
        return made

    def labels(self, y: object) -> IntArray:
        """Return labels, by number or by name, as numbers."""
        values = plain_array(y)
        if values.dtype.kind in "US":
            return self._by_name(values.tolist())
        if values.dtype.kind not in "biu":
            raise ValueError(f"y: expected labels as whole numbers or texts, got {values.dtype}")
        numbers = values.astype(np.int64)
        self._check_numbers(numbers)
        return numbers

    def answers(self, y: object) -> NDArray[Any]:
        """Return what a loss is given for labels as a user has them: class numbers, or targets as they are learned."""
        if self.inputs.task == "classification":
            return self.labels(y)
        values = np.asarray(y)
        if values.dtype.kind not in "biuf":
            raise ValueError(f"y: expected numbers, as the run was trained for {self.inputs.task}, got {values.dtype}")
        wide = values.astype(np.float64)
        wide = wide[:, np.newaxis] if wide.ndim == 1 else wide
        if wide.ndim != 2 or wide.shape[1] != self.inputs.classes or not np.isfinite(wide).all():
            expected = f"{self.inputs.classes} finite numbers for each input"
            raise ValueError(f"y: expected {expected}, got an array of shape {values.shape}, or others")
        if self.inputs.task == "multi-label" and not np.isin(wide, (0.0, 1.0)).all():
            raise ValueError("y: expected 0 or 1 for each label that an input may have, got other numbers")
        return self.done.learned(wide)

    def shown(self, predicted: NDArray[Any]) -> NDArray[Any]:
        """Return predictions as people want them: classes by name, and a single number for itself."""
        if self.inputs.task == "classification":
            return self.names(predicted)
        return predicted[:, 0] if predicted.shape[1] == 1 else predicted

    def names(self, numbers: IntArray) -> NDArray[Any]:
        """Return labels by their names, or as they are where the run knows none."""
        return np.array((*self.done.classes, ""))[numbers] if self.done.classes else numbers  # the last is NO_CLASS

    def _check_shape(self, x: NDArray[Any]) -> None:
        if x.shape[1:] != self.inputs.features:
            raise ValueError(
                f"x: expected inputs of shape {self.inputs.features}, as the run was trained on, got {x.shape[1:]}"
            )

    def _check(self, x: NDArray[Any]) -> None:
        self._check_shape(x)
        is_tokens = x.dtype == np.int32
        if is_tokens != (self.inputs.kind == "tokens"):
            got = "tokens" if is_tokens else "numbers"
            raise ValueError(f"x: expected {self.inputs.kind}, as the run was trained on, got {got}")
        if is_tokens and x.size and not 0 <= x.min() <= x.max() <= max(self.inputs.largest, self.inputs.classes - 1):
            raise ValueError(f"x: expected tokens from 0 to {self.inputs.largest}, got {x.min()} to {x.max()}")

    def _ordered(self, x: NDArray[Any], columns: tuple[str, ...]) -> NDArray[Any]:
        """Return the columns of a table in the order of the run's."""
        if not self.done.columns or not columns or columns == self.done.columns:
            return x
        made = {name for one in categories_of(self.done).values() for name in one.names}
        lacking = [name for name in self.done.columns if name not in columns and name not in made]
        if lacking:
            raise ValueError(
                f"columns: expected {', '.join(self.done.columns)}, as the run was trained on, but {lacking[0]!r} is "
                "missing; convert the table with the same columns"
            )
        none = np.zeros(len(x))  # a category that nobody has
        return np.stack([x[:, columns.index(name)] if name in columns else none for name in self.done.columns], axis=1)

    def _targets(self, targets: Float32Array, own: Preparation) -> Float32Array:
        """Return targets of a data set as the run's were: the same ones, in the same order and units."""
        values, theirs, ours = own.predicted(targets), own.classes, self.done.classes
        if theirs and ours and theirs != ours:
            lacking = [name for name in ours if name not in theirs]
            unknown = [name for name in theirs if name not in ours]
            if (lacking and self.inputs.task == "regression") or unknown:  # a label that nobody has is no mistake
                raise ValueError(f"labels: expected {', '.join(ours)}, as in the run, got {', '.join(theirs)}")
            none = np.zeros(len(values))
            values = np.stack([values[:, theirs.index(name)] if name in theirs else none for name in ours], axis=1)
        return self.done.learned(values)

    def _labelled(self, samples: Samples, classes: tuple[str, ...]) -> Samples:
        """Return samples whose labels are numbered as the run's."""
        if not classes or not self.done.classes or classes == self.done.classes:
            self._check_numbers(samples.y)
            return samples
        used = np.unique(samples.y)
        numbers = np.full(len(classes), -1, dtype=np.int64)
        numbers[used] = self._by_name([classes[number] for number in used])
        return replace(samples, y=numbers[samples.y])

    def _by_name(self, names: list[str]) -> IntArray:
        number_of: Mapping[str, int] = {name: number for number, name in enumerate(self.done.classes)}
        unknown = [name for name in names if name not in number_of]
        if unknown:
            known = ", ".join(self.done.classes[:10]) or f"0 to {self.inputs.classes - 1}"
            raise ValueError(f"labels: expected those that the run knows ({known}), got {unknown[0]!r}")
        return np.array([number_of[name] for name in names], dtype=np.int64)

    def _check_numbers(self, numbers: IntArray) -> None:
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < self.inputs.classes:
            raise ValueError(
                f"labels: expected numbers from 0 to {self.inputs.classes - 1}, got {numbers.min()} to {numbers.max()}"
            )


def _undone(data: FederatedData) -> NDArray[Any]:
    """Return inputs as they were before a table's own columns were standardised; others are as they were stored."""
    own = data.preparation
    if data.scaling is not None or (own.means and not own.columns and not own.by_column):
        made: Float32Array = data.numbers(np.arange(len(data.x)))
        return made * np.float32(own.scales[0]) + np.float32(own.means[0]) if own.means else made
    if not own.means:
        return data.x
    return np.asarray(data.x.astype(np.float64) * np.array(own.scales) + np.array(own.means))
