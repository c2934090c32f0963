"""Auxo: federated learning for clients that differ; cohorts are found while training goes on, each with its model.

`simulate` trains a whole population, and `load` opens what a run has left: models by cohort, who belongs where,
predictions. `Server` and `Client` are the two halves for an FL loop of your own. `connect` takes part in a live
service. The command `auxo` does the first two from the command line.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from auxo.algorithms.auxo import Auxo
    from auxo.api.client_data import DataColumns
    from auxo.api.finished_run import FinishedRun
    from auxo.api.simulate import load, simulate
    from auxo.core.affinity import AffinitySettings
    from auxo.core.aggregators import FedAdagrad, FedAdam, FedAvg, FedYogi
    from auxo.core.aggregators.norm_clipping import Clipped
    from auxo.core.aggregators.q_fedavg import QFedAvg
    from auxo.core.aggregators.robust import Krum, Median, MultiKrum, TrimmedMean
    from auxo.core.selectors.oort import Oort
    from auxo.core.selectors.pyramidfl import PyramidFL
    from auxo.datasets.tables import TableColumns
    from auxo.experiments.model_inputs import ModelInputs
    from auxo.protocol.messages import AffinityFeedback, AffinityRequest, CheckIn, Task, TaskFailure, TaskResult
    from auxo.runtime.client import Client
    from auxo.runtime.server import Rejection, Server
    from auxo.service.connect import connect

__version__ = "0.1.0"

__all__ = [
    "AffinityFeedback",
    "AffinityRequest",
    "AffinitySettings",
    "Auxo",
    "CheckIn",
    "Client",
    "Clipped",
    "DataColumns",
    "FedAdagrad",
    "FedAdam",
    "FedAvg",
    "FedYogi",
    "FinishedRun",
    "Krum",
    "Median",
    "ModelInputs",
    "MultiKrum",
    "Oort",
    "PyramidFL",
    "QFedAvg",
    "Rejection",
    "Server",
    "TableColumns",
    "Task",
    "TaskFailure",
    "TaskResult",
    "TrimmedMean",
    "connect",
    "load",
    "simulate",
]

# Each is imported when it is asked for: whoever only wants `auxo --help` should not wait for all of it.
_PLACES = {
    "AffinityFeedback": "auxo.protocol.messages:AffinityFeedback",
    "AffinityRequest": "auxo.protocol.messages:AffinityRequest",
    "AffinitySettings": "auxo.core.affinity:AffinitySettings",
    "Auxo": "auxo.algorithms.auxo:Auxo",
    "CheckIn": "auxo.protocol.messages:CheckIn",
    "Client": "auxo.runtime.client:Client",
    "Clipped": "auxo.core.aggregators.norm_clipping:Clipped",
    "DataColumns": "auxo.api.client_data:DataColumns",
    "FedAdagrad": "auxo.core.aggregators.adaptive:FedAdagrad",
    "FedAdam": "auxo.core.aggregators.adaptive:FedAdam",
    "FedAvg": "auxo.core.aggregators.fedavg:FedAvg",
    "FedYogi": "auxo.core.aggregators.adaptive:FedYogi",
    "FinishedRun": "auxo.api.finished_run:FinishedRun",
    "Krum": "auxo.core.aggregators.robust:Krum",
    "Median": "auxo.core.aggregators.robust:Median",
    "ModelInputs": "auxo.experiments.model_inputs:ModelInputs",
    "MultiKrum": "auxo.core.aggregators.robust:MultiKrum",
    "QFedAvg": "auxo.core.aggregators.q_fedavg:QFedAvg",
    "Oort": "auxo.core.selectors.oort:Oort",
    "PyramidFL": "auxo.core.selectors.pyramidfl:PyramidFL",
    "Rejection": "auxo.runtime.server:Rejection",
    "Server": "auxo.runtime.server:Server",
    "TableColumns": "auxo.datasets.tables:TableColumns",
    "Task": "auxo.protocol.messages:Task",
    "TaskFailure": "auxo.protocol.messages:TaskFailure",
    "TaskResult": "auxo.protocol.messages:TaskResult",
    "TrimmedMean": "auxo.core.aggregators.robust:TrimmedMean",
    "connect": "auxo.service.connect:connect",
    "load": "auxo.api.simulate:load",
    "simulate": "auxo.api.simulate:simulate",
}


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module 'auxo' has no attribute {name!r}")
    from auxo.registry.import_path import load_callable  # noqa: PLC0415

    found = load_callable(_PLACES[name])
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
