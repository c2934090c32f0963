"""Populations as files of arrays, as users of numpy write them."""

from pathlib import Path
from typing import Any

import numpy as np

from auxo.population.federated_data import FederatedData


def save_population(path: Path, data: FederatedData) -> None:
    """Write every sample with its own input, also where clients share one in memory."""
    clients = np.arange(data.n_clients)
    owner = np.concatenate([np.repeat(clients, data.train.counts()), np.repeat(clients, data.test.counts())])
    # Any, because by its types savez might take an array for its own keyword.
    groups: dict[str, Any] = {} if data.groups is None else {"group": data.groups[owner]}
    np.savez(
        path,
        x=data.inputs(np.concatenate([data.train.x_rows, data.test.x_rows])),
        y=np.concatenate([data.train.y, data.test.y]),
        client=np.array(data.client_names)[owner],
        test=np.repeat([False, True], [len(data.train.y), len(data.test.y)]),
        **groups,
    )
