"""Flower's older API, whose parts Auxo cannot work with: known when they are met, and told how to move on."""

_GUIDE = "https://flower.ai/docs/framework/how-to-upgrade-to-message-api.html"

OLD_METHODS = frozenset({"initialize_parameters", "configure_fit", "aggregate_fit", "evaluate"})
"""What Flower's older server calls of a strategy, and those of today do not have."""

_OLD_RECORDS = ("fitins.", "evaluateins.")  # that a NumPyClient looks for in a message


def how_to_migrate(what: str) -> str:
    """Return what to do with a part of the older API."""
    return (
        f"{what} is of Flower's older API (NumPyClient and client_fn, server_fn, flwr.server.strategy), which Auxo "
        "does not work with. Move the app to the message API: @app.train() and @app.evaluate() on the client's app, "
        "and on the server @app.main(), which calls start() of a strategy from flwr.serverapp.strategy. "
        f"{_GUIDE} shows it step by step"
    )


def is_old(part: object) -> bool:
    """Return whether a strategy, a workflow or the class of one is of the older API."""
    kind = part if isinstance(part, type) else type(part)
    return any(one.__module__.startswith("flwr.server.") for one in kind.__mro__)


def why_old(reason: str) -> str:
    """Return why a node has failed, and what to do if its app is of the older API."""
    is_theirs = any(record in reason for record in _OLD_RECORDS)
    return f"{reason:.300}; {how_to_migrate('its app')}" if is_theirs else f"{reason:.300}"
