"""What a client does."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict

from auxo.flower import AuxoClientApp
from digits.task import load_data, make_model, score
from digits.task import train as train_locally

app = AuxoClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train the model on the client's samples."""
    model = make_model()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    x, y, _, _ = load_data(int(context.node_config["partition-id"]))
    epochs, rate = int(context.run_config["local-epochs"]), float(context.run_config["learning-rate"])
    metrics = MetricRecord({"train_loss": train_locally(model, x, y, epochs, rate), "num-examples": len(x)})
    return Message(RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Score the model on samples that the client does not train on."""
    model = make_model()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    _, _, x, y = load_data(int(context.node_config["partition-id"]))
    loss, accuracy = score(model, x, y)
    metrics = MetricRecord({"eval_loss": loss, "eval_accuracy": accuracy, "num-examples": len(x)})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
