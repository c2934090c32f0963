"""What a node does."""

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from opposites import task

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train the model of the message on this node's samples."""
    partition = int(context.node_config["partition-id"])
    model = message.content["arrays"].to_numpy_ndarrays()
    x, y = task.samples_of(partition)
    loss = task.mean_loss(model, x, y)
    task.train(model, x, y, np.random.Generator(np.random.PCG64(partition)))
    metrics = MetricRecord({"num-examples": len(y), "train_loss": loss})
    return Message(RecordDict({"arrays": ArrayRecord(model), "metrics": metrics}), reply_to=message)
