"""Messages as bytes between this process and its workers: Flower's own protobuf, and the bytes of arrays as they are.

Models that many messages share go once.
"""

import json
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, Metadata, MetricRecord, RecordDict
from flwr.app.message import make_message
from flwr.common.serde import (
    message_from_proto,
    message_to_proto,
    recorddict_from_proto,
    recorddict_to_proto,
)
from flwr.proto.message_pb2 import Message as ProtoMessage
from flwr.proto.recorddict_pb2 import RecordDict as ProtoRecordDict

_Record = ArrayRecord | MetricRecord | ConfigRecord
_Snapshot = list[tuple[str, object]]
_KEPT = 16  # models, and contents of messages, that a worker remembers; our choice
_METADATA = (
    *("run_id", "message_id", "src_node_id", "dst_node_id", "reply_to_message_id", "group_id", "created_at", "ttl"),
    *("message_type", "src_task_id", "dst_task_id"),
)  # in the order in which `Metadata` takes them


@dataclass
class _Numbered:
    """What a worker has been sent, by number: it is sent once, and forgotten when there is too much of it."""

    numbers: dict[object, int] = field(default_factory=dict)
    held: dict[int, object] = field(default_factory=dict)  # so that nothing else gets the same identity
    next: int = 0

    def add(self, identity: object, what: object) -> tuple[int, int | None]:
        """Return the number of something new, and that of what is to be forgotten."""
        number, self.next = self.next, self.next + 1
        self.numbers[identity], self.held[number] = number, what
        if len(self.held) <= _KEPT:
            return number, None
        oldest = min(self.held)
        del self.held[oldest]
        self.numbers = {known: one for known, one in self.numbers.items() if one != oldest}
        return number, oldest


@dataclass
class Sender:
    """Writes the messages for one worker.

    A strategy puts one and the same content into many messages of a round, and one model into all: the worker is sent
    each of them once. What has been changed since is sent anew.
    """

    _models: _Numbered = field(default_factory=_Numbered, init=False)
    _contents: _Numbered = field(default_factory=_Numbered, init=False)
    _seen: dict[int, _Snapshot] = field(default_factory=dict, init=False)  # contents as they were sent, by number

    def frames(self, message: Message) -> list[bytes]:
        """Return what to send for a message: what the worker does not know yet, and which content is whose."""
        frames: list[bytes] = []
        number = self._content(message.content, frames)
        frames.append(_frame({"message": _fields(message), "content": number}, []))
        return frames

    def _content(self, content: RecordDict, frames: list[bytes]) -> int:
        snapshot = _snapshot(content)
        known = self._contents.numbers.get(id(content))
        if known is not None and self._seen[known] == snapshot:
            return known
        rest, shared = RecordDict(), {}
        for key, record in content.items():
            if isinstance(record, ArrayRecord):
                shared[key] = self._model(record, frames)
            else:
                rest[key] = record
        number, forget = self._contents.add(id(content), content)
        self._seen[number] = snapshot
        if forget is not None:
            del self._seen[forget]
        header = {"content": number, "forget": forget, "shared": shared, "order": list(content)}
        frames.append(_frame(header, [recorddict_to_proto(rest).SerializeToString()]))
        return number

    def _model(self, record: ArrayRecord, frames: list[bytes]) -> int:
        identity = tuple((name, id(array.data)) for name, array in record.items())
        known = self._models.numbers.get(identity)
        if known is not None:
            return known
        number, forget = self._models.add(identity, tuple(array.data for array in record.values()))
        header = {"model": number, "forget": forget, "arrays": _described(record)}
        frames.append(_frame(header, [array.data for array in record.values()]))
        return number


def _snapshot(content: RecordDict) -> _Snapshot:
    """Return what tells whether a content has been changed: bytes of arrays cannot be, all else is compared."""
    return [
        (key, [(name, id(array.data)) for name, array in record.items()])
        if isinstance(record, ArrayRecord)
        else (key, dict(record))
        for key, record in content.items()
    ]


@dataclass
class Receiver:
    """Reads, in a worker, what a `Sender` has written."""

    _models: dict[int, ArrayRecord] = field(default_factory=dict, init=False)
    _contents: dict[int, RecordDict] = field(default_factory=dict, init=False)

    def read(self, frame: memoryview) -> Message | None:
        """Return a message; None for something that is kept for the messages that follow."""
        header, blob = _unframe(frame)
        if "message" in header:
            content = {key: _own_copy(record) for key, record in self._contents[header["content"]].items()}
            return make_message(metadata=Metadata(*header["message"]), content=RecordDict(content))
        if "model" in header:
            self._models[header["model"]], _ = _arrays(header["arrays"], blob)
            self._models.pop(header["forget"], None)
            return None
        rest, shared = recorddict_from_proto(ProtoRecordDict.FromString(blob)), header["shared"]
        self._contents[header["content"]] = RecordDict(
            {key: self._models[shared[key]] if key in shared else rest[key] for key in header["order"]}
        )
        self._contents.pop(header["forget"], None)
        return None


@dataclass(frozen=True)
class Done:
    """A reply, and what else there is to say of it."""

    reply: Message
    has_state: bool  # its node has something to remember
    took_s: float


def reply_to_bytes(done: Done) -> bytes:
    """Return a reply as bytes."""
    reply = done.reply
    header: dict[str, object] = {"state": done.has_state, "took": done.took_s}
    if reply.has_error():
        return _frame(header, [message_to_proto(reply).SerializeToString()])
    content, rest = reply.content, RecordDict()
    described, blobs = {}, []
    for key, record in content.items():
        if isinstance(record, ArrayRecord):
            described[key] = _described(record)
            blobs += [array.data for array in record.values()]
        else:
            rest[key] = record
    header |= {"fields": _fields(reply), "order": list(content), "arrays": described}
    return _frame(header, [*blobs, recorddict_to_proto(rest).SerializeToString()])


def reply_from_bytes(frame: memoryview) -> Done:
    """Return what `reply_to_bytes` was given."""
    header, blob = _unframe(frame)
    if "fields" not in header:
        reply = message_from_proto(ProtoMessage.FromString(blob))
    else:
        records: dict[str, _Record] = {}
        for key, described in header["arrays"].items():
            records[key], blob = _arrays(described, blob)
        records |= recorddict_from_proto(ProtoRecordDict.FromString(blob))
        content = RecordDict({key: records[key] for key in header["order"]})
        reply = make_message(metadata=Metadata(*header["fields"]), content=content)
    return Done(reply, header["state"], header["took"])


def packed(frames: Sequence[bytes]) -> bytes:
    """Return several frames as one.

    >>> [bytes(frame) for frame in unpacked(packed([b"one", b"", b"three"]))]
    [b'one', b'', b'three']
    """
    return b"".join(part for frame in frames for part in (len(frame).to_bytes(8, "little"), frame))


def unpacked(frame: bytes) -> list[memoryview]:
    """Return the frames that `packed` was given; nothing is copied."""
    view, found, at = memoryview(frame), [], 0
    while at < len(view):
        size = int.from_bytes(view[at : at + 8], "little")
        found.append(view[at + 8 : at + 8 + size])
        at += 8 + size
    return found


def own_message(message: Message) -> Message:
    """Return a message whose records the receiver may change: a strategy gives all nodes the same ones."""
    content = {key: _own_copy(record) for key, record in message.content.items()}
    return make_message(metadata=message.metadata, content=RecordDict(content))


def _own_copy(record: _Record) -> _Record:
    own = record.copy()
    if isinstance(own, ArrayRecord):
        # The bytes are shared, and cannot be changed; all around them is new.
        for name, array in own.items():
            own[name] = copy(array)
    return own


def _fields(message: Message) -> list[object]:
    metadata = message.metadata
    return [getattr(metadata, name) for name in _METADATA]


def _described(record: ArrayRecord) -> list[tuple[object, ...]]:
    """Return all that there is to say of arrays but their bytes."""
    return [(name, array.dtype, array.shape, array.stype, len(array.data)) for name, array in record.items()]


def _arrays(described: Sequence[Sequence[Any]], blob: memoryview) -> tuple[ArrayRecord, memoryview]:
    """Return the arrays that are at the beginning of some bytes, and what follows them."""
    record, at = ArrayRecord(), 0
    for name, dtype, shape, stype, size in described:
        record[name] = Array(dtype, tuple(shape), stype, bytes(blob[at : at + size]))
        at += size
    return record, blob[at:]


def _frame(header: Mapping[str, object], blobs: Sequence[bytes]) -> bytes:
    text = json.dumps(header).encode()
    return b"".join([len(text).to_bytes(4, "little"), text, *blobs])


def _unframe(frame: memoryview) -> tuple[Any, memoryview]:
    """Return the header, as a process of ours has written it, and what it is about."""
    size = int.from_bytes(frame[:4], "little")
    return json.loads(bytes(frame[4 : 4 + size])), frame[4 + size :]
