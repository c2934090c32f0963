"""What tests of Flower share."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _swift_collections() -> Iterator[None]:
    """Some of Flower's strategies collect garbage at every reply; what other tests have left need not be looked at."""
    gc.freeze()
    yield
    gc.unfreeze()
