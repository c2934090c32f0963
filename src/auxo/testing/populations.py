"""The contract of populations: federated data that a federation can be run on."""

import numpy as np

from auxo.population.federated_data import FederatedData, Samples
from auxo.testing.contract import Contract, expect, expect_array

CONTRACT = Contract[FederatedData](
    "a population", "FederatedData in auxo.population.federated_data", lambda data: data.name
)
check_population = CONTRACT.check
"""Raises `ContractBroken` unless a population keeps its contract."""

_LOOKED_AT = 1000  # inputs that are read, from all over the population


def _both(data: FederatedData) -> tuple[tuple[str, Samples], ...]:
    return ("train", data.train), ("test", data.test)


@CONTRACT.promise
def samples_belong_to_clients(data: FederatedData) -> None:
    """Samples are sorted by client: offsets ascend from 0 to the number of samples."""
    for name, samples in _both(data):
        offsets = samples.offsets
        expect(offsets.dtype.kind == "i", f"whole {name}.offsets", offsets.dtype)
        expect(bool((np.diff(offsets) >= 0).all()), f"{name}.offsets that ascend", offsets[:10])
        ends = (int(offsets[0]), int(offsets[-1]))
        expect(ends == (0, len(samples.y)), f"{name}.offsets from 0 to {len(samples.y)}", ends)


@CONTRACT.promise
def samples_are_there(data: FederatedData) -> None:
    """Every sample has an input and a label: rows of x, and classes; and there is something to train on."""
    expect(len(data.train.y) > 0, "training samples", "none")
    for name, samples in _both(data):
        expect(samples.x_rows.shape == samples.y.shape, f"a row in {name}.x_rows for each label", samples.x_rows.shape)
        for column, bound in (("x_rows", len(data.x)), ("y", data.n_classes)):
            values = getattr(samples, column)
            expect(values.dtype.kind == "i", f"whole numbers in {name}.{column}", values.dtype)
            outside = values[(values < 0) | (values >= bound)]
            expect(len(outside) == 0, f"{name}.{column} in 0..{bound - 1}", outside[:5])


@CONTRACT.promise
def clients_have_names(data: FederatedData) -> None:
    """Every client has a name of its own."""
    names = list(data.client_names)
    expect(len(names) == data.n_clients, f"{data.n_clients} names", len(names))
    expect(len(set(names)) == len(names), "different names", f"{len(names) - len(set(names))} that occur again")


@CONTRACT.promise
def groups_are_numbered(data: FederatedData) -> None:
    """Groups, where they are known, are numbered from 0, and each of them has a client."""
    if data.groups is None:
        return
    expect(data.groups.shape == (data.n_clients,), f"a group for each of {data.n_clients} clients", data.groups.shape)
    expect(data.groups.dtype.kind == "i", "whole numbers", data.groups.dtype)
    found = np.unique(data.groups)
    expect(np.array_equal(found, np.arange(len(found))), f"groups 0..{len(found) - 1}", found[:10])


@CONTRACT.promise
def models_are_given_numbers(data: FederatedData) -> None:
    """Models are given finite numbers of float32, or tokens of int32 from 0 on, in memory of their own."""
    rows = np.unique(np.linspace(0, len(data.x) - 1, _LOOKED_AT).astype(np.int64)) if len(data.x) else np.arange(0)
    inputs = data.inputs(rows)
    dtype = "int32" if data.has_tokens else "float32"
    expect_array(inputs, dtype, (len(rows), *data.features), "inputs")
    is_fit = bool((inputs >= 0).all() if data.has_tokens else np.isfinite(inputs).all())
    expect(is_fit, "tokens from 0 on" if data.has_tokens else "finite numbers", "others")
    expect(not np.shares_memory(inputs, data.x), "inputs in memory of their own", "a view of the population's")
