"""One thread for what a round computes in a process: processes share the cores, and sums must not depend on that."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController


@contextmanager
def one_thread() -> Iterator[None]:
    """Let the numerical libraries of this process use one thread each."""
    with _controller().limit(limits=1):
        yield


@cache
def _controller() -> ThreadpoolController:
    # It knows the libraries that are loaded when it is made, and this one brings its own; looking takes milliseconds.
    import sklearn.cluster  # noqa: F401, PLC0415

    return ThreadpoolController()
