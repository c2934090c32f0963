"""What clients and a service say beside the messages of the protocol, and all of it as JSON.

A value is the fields of a frozen dataclass, each of its declared type, and every key is a known one.
"""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, TypeAdapter

from auxo.protocol.messages import CheckIn, TaskFailure


@dataclass(frozen=True)
class Joining:
    """Client to coordinator, then to its cohort: here I am."""

    check_in: CheckIn
    session: Annotated[str, Field(max_length=64)]  # of the client's process; of two sessions the newer counts


@dataclass(frozen=True)
class Failing:
    """Participant to cohort: there will be no answer to its task."""

    failure: TaskFailure
    epoch: int
    nonce: str


def json_bytes(value: object) -> bytes:
    """Return a frozen dataclass as JSON; `auxo.files.typed_json.json_reader` reads it."""
    kind = type(value)
    if kind not in _adapters:
        _adapters[kind] = TypeAdapter(kind)
    return _adapters[kind].dump_json(value)


_adapters: dict[type, TypeAdapter[object]] = {}  # to make one takes longer than to use it
