"""What a node does: training and evaluation as in any Flower app, in Auxo's client half."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict

from auxo.core.rng import stream
from auxo.flower import AuxoClientApp, half_of
from opposites import task

app = AuxoClientApp(halves=True)


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train the model of the message on this node's samples, or on the half of them that it is asked for."""
    partition = int(context.node_config["partition-id"])
    model = message.content.array_records["arrays"].to_numpy_ndarrays()
    x, y = task.samples_of(partition)
    rows = half_of(message, len(y))
    order = stream(0, "order", partition, str(message.content.config_records["config"]["server-round"]))
    task.train(model, x[rows], y[rows], order)
    metrics = MetricRecord({"num-examples": len(y)})
    return Message(RecordDict({"arrays": ArrayRecord(model), "metrics": metrics}), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Score the model of the message; this is also how a node compares models."""
    model = message.content.array_records["arrays"].to_numpy_ndarrays()
    x, y = task.samples_of(int(context.node_config["partition-id"]))
    rows = half_of(message, len(y))
    metrics = MetricRecord({"num-examples": len(y), "eval_loss": task.mean_loss(model, x[rows], y[rows])})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
