"""What can go wrong with an engine so that a run cannot go on."""


class WorkersLost(RuntimeError):  # noqa: N818 - it says what happened
    """Processes that train were lost again and again; the message says what to do."""
