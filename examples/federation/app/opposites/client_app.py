"""What a node does."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from auxo.core.rng import stream
from opposites import task

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train the model of the message on this node's samples."""
    partition = int(context.node_config["partition-id"])
    model = message.content.array_records["arrays"].to_numpy_ndarrays()
    x, y = task.samples_of(partition)
    loss = task.mean_loss(model, x, y)
    task.train(model, x, y, stream(0, "order", partition))
    metrics = MetricRecord({"num-examples": len(y), "train_loss": loss})
    return Message(RecordDict({"arrays": ArrayRecord(model), "metrics": metrics}), reply_to=message)
