"""Contract suites for parts of one's own: what every method, aggregator, selector and so on must do.

A part written elsewhere is checked in two lines, in a test or anywhere else:

    from auxo.testing import check_method

    check_method(MyMethod())

A promise that is not kept is a `ContractBroken`, which says what was expected, what came, and where to read on.
"""

from auxo.testing.aggregators import check_aggregator
from auxo.testing.client_mods import check_client_mod
from auxo.testing.contract import ContractBroken
from auxo.testing.devices import check_availability, check_devices
from auxo.testing.engines import check_engine
from auxo.testing.guards import check_guard
from auxo.testing.methods import check_method
from auxo.testing.owners import check_commit, check_shelf
from auxo.testing.populations import check_population
from auxo.testing.selectors import check_selector
from auxo.testing.trainers import check_trainer, separable_population

__all__ = [
    "ContractBroken",
    "check_aggregator",
    "check_availability",
    "check_client_mod",
    "check_commit",
    "check_devices",
    "check_engine",
    "check_guard",
    "check_method",
    "check_population",
    "check_selector",
    "check_shelf",
    "check_trainer",
    "separable_population",
]
