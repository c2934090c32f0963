"""pfl on the workload: its own federated averaging over PyTorch models, one process for each core.

    OMP_NUM_THREADS=1 torchrun --standalone --nproc_per_node=2 -m peers.pfl_rounds --workload mlp --rounds 10

As pfl's guide to fast simulation says, users are in memory and carry their number of samples as a weight, which deals
them out evenly to the processes. pfl goes through a user's samples in the same order in each round.
"""

import os
import time
from itertools import pairwise

import torch
from peers import workload as work
from peers.torch_networks import network, train_loss
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam.base import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from torch import nn


class PflNetwork(nn.Module):
    """A network with the two methods that pfl asks of one."""

    def __init__(self, layers: nn.Sequential) -> None:
        """Take the layers, from the inputs to the logits."""
        super().__init__()
        self.layers = layers

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Return the mean cross entropy of a batch."""
        return nn.functional.cross_entropy(self.layers(x), y)

    def metrics(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, object]:
        """Return nothing: users are not evaluated."""
        return {}


class Clock(TrainingProcessCallback):  # type: ignore[misc] # pfl is not installed where types are checked
    """Notes when each round ends."""

    def __init__(self) -> None:
        """Start with no round."""
        self.ends_s: list[float] = []

    def on_train_begin(self, *, model: object) -> Metrics:
        """Note when the first round begins."""
        self.ends_s.append(time.perf_counter())
        return Metrics()

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: object, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        """Note the end of a round, and let the training go on."""
        self.ends_s.append(time.perf_counter())
        return False, Metrics()


def main() -> None:
    """Train, time each round and, in the first process, report."""
    torch.set_num_threads(1)
    task, samples = work.read_task(__doc__), work.make_samples()
    x, y = torch.from_numpy(samples.x), torch.from_numpy(samples.y)
    users = [
        PyTorchTensorDataset((x[samples.rows(user)], y[samples.rows(user)]), user_id=str(user))
        for user in range(work.PARTICIPANTS)
    ]
    dataset = FederatedDataset(
        users.__getitem__,
        get_user_sampler("minimize_reuse", list(range(work.PARTICIPANTS))),
        user_id_to_weight=dict(enumerate(samples.sizes().tolist())),
    )
    layers, clock = network(task.workload), Clock()
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=task.warmup + task.rounds,
            evaluation_frequency=task.warmup + task.rounds + 1,
            train_cohort_size=work.PARTICIPANTS,
            val_cohort_size=0,
        ),
        SimulatedBackend(dataset, dataset, postprocessors=[WeightByDatapoints()]),
        PyTorchModel(
            PflNetwork(layers),
            local_optimizer_create=torch.optim.SGD,
            central_optimizer=torch.optim.SGD(layers.parameters(), lr=1.0),
        ),
        model_train_params=NNTrainHyperParams(
            local_num_epochs=1, local_learning_rate=work.LEARNING_RATE, local_batch_size=work.BATCH_SIZE
        ),
        model_eval_params=NNEvalHyperParams(local_batch_size=None),
        callbacks=[clock],
        send_metrics_to_platform=False,
    )
    if os.environ.get("RANK", "0") == "0":
        round_s = [end - begin for begin, end in pairwise(clock.ends_s)]
        work.report("pfl", task, round_s, train_loss(layers, samples), ("pfl", "torch", "numpy"))


if __name__ == "__main__":
    main()
