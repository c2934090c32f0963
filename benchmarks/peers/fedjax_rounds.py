"""FedJAX on the workload: its own federated averaging over Haiku models, in an environment made for it.

    python -m peers.fedjax_rounds --workload mlp --rounds 10

FedJAX fills an epoch's last batch up from a second pass over the samples, so it does as many steps as the others on 6 %
more samples; a batch has one shape and is compiled once.
"""

import os
import time

import fedjax
import haiku as hk
import jax
import numpy as np
from fedjax.algorithms import fed_avg
from peers import workload as work

# The faster of FedJAX's two backends on two cores: the CNN's steps are long enough to be worth spreading over devices.
BACKENDS = {"softmax": "jit", "mlp": "jit", "cnn": "pmap"}


def network(workload: str, x: jax.Array) -> jax.Array:
    """Return the logits, (samples, classes)."""
    if workload == "cnn":
        x = x.reshape(-1, work.SIDE, work.SIDE, 1)
        for number, channels in enumerate(work.CHANNELS, start=1):
            x = jax.nn.relu(hk.Conv2D(channels, work.KERNEL, padding="SAME", name=f"conv{number}")(x))
            x = hk.MaxPool((2, 2, 1), (2, 2, 1), padding="VALID")(x)
        x = hk.Flatten()(x)
    if workload != "softmax":
        x = jax.nn.relu(hk.Linear(work.HIDDEN, name="hidden")(x))
    return hk.Linear(work.CLASSES, name="out")(x)


def main() -> None:
    """Train, time each round and report."""
    task, samples = work.read_task(__doc__), work.make_samples()
    if BACKENDS[task.workload] == "pmap":
        # Read when JAX first looks for devices, which is later than its import.
        os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={work.CORES}"
    fedjax.set_for_each_client_backend(BACKENDS[task.workload])
    forward = hk.transform(lambda batch: network(task.workload, batch["x"]))
    example = {"x": np.zeros((1, work.FEATURES), dtype=np.float32), "y": np.zeros(1, dtype=np.int32)}
    cross_entropy = fedjax.metrics.unreduced_cross_entropy_loss
    model = fedjax.create_model_from_haiku(
        forward, example, train_loss=lambda batch, logits: cross_entropy(batch["y"], logits)
    )
    x, y = samples.x, samples.y.astype(np.int32)
    datasets = [
        fedjax.ClientDataset({"x": x[samples.rows(participant)], "y": y[samples.rows(participant)]})
        for participant in range(work.PARTICIPANTS)
    ]
    algorithm = fed_avg.federated_averaging(
        fedjax.model_grad(model),
        client_optimizer=fedjax.optimizers.sgd(work.LEARNING_RATE),
        server_optimizer=fedjax.optimizers.sgd(1.0),
        client_batch_hparams=fedjax.ShuffleRepeatBatchHParams(batch_size=work.BATCH_SIZE, num_epochs=1),
    )
    state = algorithm.init(
        {
            name: {"w": jax.numpy.asarray(layer.weight), "b": jax.numpy.asarray(layer.bias)}
            for name, layer in work.initial_weights(task.workload).items()
        }
    )
    round_s = []
    for round in range(task.warmup + task.rounds):
        keys = jax.random.split(jax.random.PRNGKey(round), work.PARTICIPANTS)
        clients = [(b"%d" % number, dataset, keys[number]) for number, dataset in enumerate(datasets)]
        start = time.perf_counter()
        state, _ = algorithm.apply(state, clients)
        jax.block_until_ready(state.params)
        round_s.append(time.perf_counter() - start)
    logits = model.apply_for_eval(state.params, {"x": x})
    loss = float(cross_entropy(y, logits).mean())
    work.report("fedjax", task, round_s, loss, ("fedjax", "jax", "jaxlib", "dm-haiku", "numpy"))


if __name__ == "__main__":
    main()
