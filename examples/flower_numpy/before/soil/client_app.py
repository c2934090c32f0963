"""What a farm does."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from soil.task import load_data, mean_squared_error
from soil.task import train as train_locally

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train the model on the farm's samples."""
    x, y, _, _ = load_data(int(context.node_config["partition-id"]))
    arrays: ArrayRecord = message.content["arrays"]
    epochs, rate = int(context.run_config["local-epochs"]), float(context.run_config["learning-rate"])
    trained = train_locally(arrays, x, y, epochs, rate)
    metrics = MetricRecord({"train_loss": mean_squared_error(trained, x, y), "num-examples": len(x)})
    return Message(RecordDict({"arrays": trained, "metrics": metrics}), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Score the model on samples that the farm does not train on."""
    _, _, x, y = load_data(int(context.node_config["partition-id"]))
    loss = mean_squared_error(message.content["arrays"], x, y)
    metrics = MetricRecord({"eval_loss": loss, "num-examples": len(x)})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
