"""The partitions of any partitioner of flwr-datasets as clients."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from auxo.datasets.client_samples import ClientSamples, SampleSource
from auxo.datasets.hugging_face import HubColumns, from_hugging_face

_CLIENT = "auxo client"  # no column of the user's


def partitions_source(partitioner: Any, name: str, features: str, label: str) -> SampleSource:
    """Return a data set in which every partition is a client, called as in the data set where the partitioner knows it.

    Args:
        partitioner: one with its ``dataset`` set.
        name: of the data set, in reports.
        features: column of inputs.
        label: column of labels.

    Raises:
        ValueError: it has no data set yet.
        FileError: a column is missing, or holds what cannot be used.
    """
    numbers = range(partitioner.num_partitions)
    # Numbers are filled up with zeros, so that they sort in their order.
    width = len(str(max(len(numbers) - 1, 0)))
    natural = getattr(partitioner, "partition_id_to_natural_id", None) or {}
    columns = HubColumns(_CLIENT, features, label)

    whole = partitioner.dataset
    first = from_hugging_face(whole.add_column(_CLIENT, [""] * len(whole)), name, columns)
    number_of = {label: number for number, label in enumerate(first.classes)}

    def clients() -> Iterator[ClientSamples]:
        for number in numbers:
            part = partitioner.load_partition(number)
            client = str(natural.get(number, f"{number:0{width}d}"))
            source = from_hugging_face(part.add_column(_CLIENT, [client] * len(part)), name, columns)
            # A partition may lack labels, and then numbers the others differently.
            numbered = np.array([number_of[label] for label in source.classes])
            for samples in source.clients():
                yield replace(samples, y=numbered[samples.y])

    return replace(first, clients=clients)
