"""Which methods of a configuration cannot be run, and why: told before anything has been trained."""

from collections.abc import Sequence

from auxo.core.cohort_algorithm import Circumstances, why_refused
from auxo.experiments.config import Config
from auxo.experiments.parts import METHODS


def circumstances_of(config: Config, clients: int) -> Circumstances:
    """Return what a run of this configuration offers to any method.

    >>> circumstances_of(Config(devices={"availability": "day-night", "dropout": 0.1}), clients=100).obstacles
    ('devices.availability = "day-night"', 'devices.dropout = 0.1')
    """
    devices, obstacles = config.devices, []
    always = devices.availability == "always" or (devices.availability == "day-night" and devices.share_online == 1)
    if not always:
        obstacles.append(f'devices.availability = "{devices.availability}"')
    if devices.dropout > 0:
        obstacles.append(f"devices.dropout = {devices.dropout:g}")
    if devices.deadline_s is not None:
        obstacles.append(f"devices.deadline_s = {devices.deadline_s:g}")
    return Circumstances(clients, config.training.participants, config.training.rounds, tuple(obstacles))


def refusal(method: str, config: Config, clients: int) -> str | None:
    """Return why a method cannot be run in this configuration, with so many clients; None: it can be.

    >>> refusal("base", Config(), clients=100) is None
    True
    """
    return why_refused(config.maker.make(METHODS, method), circumstances_of(config, clients))


def refusals(methods: Sequence[str], config: Config, clients: int) -> dict[str, str]:
    """Return the methods that cannot be run, each with the reason."""
    why = {method: refusal(method, config, clients) for method in methods}
    return {method: words for method, words in why.items() if words is not None}
