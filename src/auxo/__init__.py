"""Auxo: federated learning for clients that differ; cohorts are found while training goes on, each with its model.

`Server` and `Client` are the two halves for an FL loop of your own; `auxo` on the command line simulates whole
populations.
"""

from auxo.algorithms.auxo import Auxo
from auxo.core.affinity import AffinitySettings
from auxo.core.aggregators import FedAvg, FedYogi
from auxo.protocol.messages import AffinityFeedback, AffinityRequest, CheckIn, Task, TaskFailure, TaskResult
from auxo.runtime.client import Client
from auxo.runtime.server import Rejection, Server

__version__ = "0.1.0"

__all__ = [
    "AffinityFeedback",
    "AffinityRequest",
    "AffinitySettings",
    "Auxo",
    "CheckIn",
    "Client",
    "FedAvg",
    "FedYogi",
    "Rejection",
    "Server",
    "Task",
    "TaskFailure",
    "TaskResult",
]
