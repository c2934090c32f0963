"""Populations from plain arrays, one entry a sample, in which nothing is trusted."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from auxo.core.types import BoolArray, Float32Array, IntArray
from auxo.files.errors import file_error
from auxo.population.federated_data import FederatedData, client_order, samples_by_client
from auxo.population.preparation import Preparation

_REQUIRED = ("x", "y", "client", "test")
_OPTIONAL = ("group",)
_MAX_CLASSES = 100_000  # our own choice: beyond it labels are ids or hashes, and a model of that width would not fit
_NAMED_AT_MOST = 5  # clients that an error lists


def population_of(
    *,
    x: NDArray[np.generic],
    y: NDArray[np.generic],
    client: NDArray[np.generic],
    test: NDArray[np.generic],
    group: NDArray[np.generic] | None = None,
    name: str,
) -> FederatedData:
    """Return the population of arrays in memory; `population_from_arrays` says what they hold."""
    arrays = {"x": x, "y": y, "client": client, "test": test} | ({} if group is None else {"group": group})
    return population_from_arrays(arrays, name, Path(name))


def population_from_arrays(
    arrays: Mapping[str, NDArray[np.generic]],
    name: str,
    path: Path,
    *,
    standardise: bool = False,
    like: Preparation | None = None,
) -> FederatedData:
    """Return the population of these arrays and no others, which have one entry a sample, in any order.

    - ``x`` (samples, features...): finite numbers. Pixels of dtype uint8 are scaled from 0..255 to [0, 1]. All other
      dtypes are taken as they are, as float32; with one axis of features they are the columns of a table. These alone
      are what ``standardise`` is about, by their own means or as was done to others (``like``):
      `FederatedData.standardised` does the rest.
    - ``y`` (samples,): the labels, integers from 0. There are as many classes as the largest label plus one.
    - ``client`` (samples,): whose sample it is, integers or strings. Clients come in sorted order.
    - ``test`` (samples,): true (or 1) for a test sample, false (or 0) for one to train on. Every client needs both.
    - ``group`` (samples,), optional: the known group of the sample's client, integers or strings, the same in all
      samples of a client. Groups are numbered from 0 in sorted order. Only the evaluation reads them.

    Errors are about ``path``.

    Raises:
        FileError: they are not of this form; the message names the array and the remedy.
    """
    _check_names(path, list(arrays))
    columns = _checked(path, arrays)
    clients, first_samples, client_rows = np.unique(columns.client, return_index=True, return_inverse=True)
    order = client_order([str(client) for client in clients])
    client_names, first_samples = tuple(str(clients[place]) for place in order), first_samples[order]
    client_rows = np.argsort(order)[client_rows]
    _check_clients_have_samples(path, client_names, client_rows, columns.test)
    groups = None
    if columns.group is not None:
        groups = columns.group[first_samples]
        _check_one_group_each(path, client_names, columns.group != groups[client_rows], client_rows)

    train, test = samples_by_client(client_rows, columns.y, columns.test, len(clients))
    x = arrays["x"]
    is_table = x.ndim == 2 and x.dtype != np.uint8
    data = FederatedData(
        name=name,
        x=columns.x,
        train=train,
        test=test,
        n_classes=int(columns.y.max()) + 1,
        client_names=client_names,
        groups=groups,
        preparation=Preparation(by_column=is_table),
    )
    if is_table and like is not None and (like.columns or like.by_column) and len(like.means) == x.shape[1]:
        return data.standardised(x, like)
    return data.standardised(x) if standardise and is_table else data


@dataclass(frozen=True)
class _Columns:
    """The arrays, row aligned and of the types that the rest of the package uses."""

    x: Float32Array
    y: IntArray
    client: NDArray[np.generic]  # integers or strings
    test: BoolArray
    group: IntArray | None


def _check_names(path: Path, present: list[str]) -> None:
    got = ", ".join(sorted(present)) or "none"
    expected = f"the arrays {', '.join(_REQUIRED)} and optionally {', '.join(_OPTIONAL)}"
    missing = [array for array in _REQUIRED if array not in present]
    if missing:
        raise file_error(path, ", ".join(missing), expected, got, f"add what is missing: {', '.join(missing)}")
    unknown = [array for array in present if array not in _REQUIRED + _OPTIONAL]
    if unknown:
        # A group saved as "groups" must not go unnoticed.
        raise file_error(path, ", ".join(unknown), expected, got, "rename or remove what is unknown")


def _checked(path: Path, arrays: Mapping[str, NDArray[np.generic]]) -> _Columns:
    _check_shapes(path, arrays)
    client = arrays["client"]
    if client.dtype.kind not in "iuU":
        raise file_error(
            path, "client", "integers or strings", f"dtype {client.dtype}", "save client.astype(int) or .astype(str)"
        )
    return _Columns(
        x=_checked_inputs(path, arrays["x"]),
        y=_checked_labels(path, arrays["y"]),
        client=client,
        test=_checked_test(path, arrays["test"]),
        group=_checked_groups(path, arrays["group"]) if "group" in arrays else None,
    )


def _check_shapes(path: Path, arrays: Mapping[str, NDArray[np.generic]]) -> None:
    x = arrays["x"]
    if x.ndim < 2 or 0 in x.shape[1:]:
        raise file_error(
            path, "x", "shape (samples, features...)", f"shape {x.shape}", "give every sample at least one feature"
        )
    samples = len(x)
    if samples == 0:
        raise file_error(path, "x", "at least one sample", "none", "save a population that has samples")
    for array, values in arrays.items():
        if array != "x" and values.shape != (samples,):
            raise file_error(
                path,
                array,
                f"shape ({samples},), one entry for each of the {samples} samples of x",
                f"shape {values.shape}",
                "repeat what belongs to a client for each of its samples, and check that no sample was left out",
            )


def _checked_inputs(path: Path, x: NDArray[np.generic]) -> Float32Array:
    if x.dtype.kind not in "biuf":
        raise file_error(path, "x", "numbers", f"dtype {x.dtype}", "save x.astype(np.float32)")
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is reported as such
        inputs: Float32Array = x.astype(np.float32, copy=False)
    if x.dtype == np.uint8:
        return inputs / np.float32(255)
    is_finite = np.isfinite(inputs).reshape(len(inputs), -1).all(axis=1)
    if not is_finite.all():
        raise file_error(
            path,
            "x",
            "finite numbers that fit float32",
            f"NaN or infinity in {np.count_nonzero(~is_finite)} samples, the first at row {np.argmin(is_finite)}",
            "fill in or drop these samples",
        )
    return inputs


def _checked_labels(path: Path, y: NDArray[np.generic]) -> IntArray:
    expected = f"integers from 0 to {_MAX_CLASSES - 1}"
    if y.dtype.kind not in "iuf":
        raise file_error(path, "y", expected, f"dtype {y.dtype}", "number the classes from 0 and save y.astype(int)")
    numbers = y.astype(np.float64)
    is_label = (numbers >= 0) & (numbers < _MAX_CLASSES) & (numbers == np.floor(numbers))
    if not is_label.all():
        row = int(np.argmin(is_label))
        raise file_error(path, "y", expected, f"{y[row]} at row {row}", "number the classes from 0, without large gaps")
    return numbers.astype(np.int64)


def _checked_test(path: Path, test: NDArray[np.generic]) -> BoolArray:
    if test.dtype.kind not in "biu":
        raise file_error(path, "test", "booleans, or integers 0 and 1", f"dtype {test.dtype}", "save test.astype(bool)")
    is_flag = np.isin(test, [0, 1])
    if not is_flag.all():
        row = int(np.argmin(is_flag))
        raise file_error(path, "test", "booleans, or integers 0 and 1", f"{test[row]} at row {row}", "save booleans")
    return test.astype(np.bool_)


def _checked_groups(path: Path, group: NDArray[np.generic]) -> IntArray:
    if group.dtype.kind not in "iuU":
        raise file_error(
            path, "group", "integers or strings", f"dtype {group.dtype}", "save group.astype(int) or .astype(str)"
        )
    numbered: IntArray = np.unique(group, return_inverse=True)[1].astype(np.int64)
    return numbered


def _check_clients_have_samples(path: Path, names: tuple[str, ...], client_rows: IntArray, test: BoolArray) -> None:
    for kind, is_in_split, use in (("training", ~test, "take part"), ("test", test, "be scored")):
        without = np.flatnonzero(np.bincount(client_rows[is_in_split], minlength=len(names)) == 0)
        if len(without):
            raise file_error(
                path,
                "test",
                f"at least one {kind} sample of every client",
                f"none of {_listed(names, without)}, of {len(names)} clients",
                f"such clients cannot {use}: leave them out, or mark some of their samples otherwise",
            )


def _check_one_group_each(path: Path, names: tuple[str, ...], is_other_group: BoolArray, client_rows: IntArray) -> None:
    in_several = np.unique(client_rows[is_other_group])
    if len(in_several):
        raise file_error(
            path,
            "group",
            "the same group in all samples of a client",
            f"several groups for {_listed(names, in_several)}",
            "give each client one group, or make a client for each group",
        )


def _listed(names: tuple[str, ...], rows: IntArray) -> str:
    listed = ", ".join(repr(names[row]) for row in rows[:_NAMED_AT_MOST])
    return f"{len(rows)} ({listed}{', ...' if len(rows) > _NAMED_AT_MOST else ''})"
