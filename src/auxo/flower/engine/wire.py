"""Messages as bytes between this process and its workers, by Flower's own protobuf; models that many share go once."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from flwr.app import Array, ArrayRecord, Message, RecordDict
from flwr.app.message import make_message
from flwr.common.serde import array_record_from_proto, array_record_to_proto, message_from_proto, message_to_proto
from flwr.proto.message_pb2 import Message as ProtoMessage
from flwr.proto.recorddict_pb2 import ArrayRecord as ProtoArrayRecord

_KEPT = 16  # models that a worker remembers; our choice
_Known = tuple[tuple[str, bytes], ...]


@dataclass
class Sender:
    """Writes the messages for one worker.

    A strategy puts one and the same model into all its messages of a round: the worker is sent it once.
    """

    _numbers: dict[tuple[tuple[str, int], ...], int] = field(default_factory=dict, init=False)
    _held: dict[int, _Known] = field(default_factory=dict, init=False)  # so that no other bytes get the same identity
    _next: int = field(default=0, init=False)

    def frames(self, message: Message) -> list[bytes]:
        """Return what to send for a message: models the worker does not know yet, and the message without them."""
        frames: list[bytes] = []
        shared: dict[str, int] = {}
        rest = RecordDict()
        for key, record in message.content.items():
            if not isinstance(record, ArrayRecord):
                rest[key] = record
                continue
            identity = tuple((name, id(array.data)) for name, array in record.items())
            number = self._numbers.get(identity)
            if number is None:
                number = self._next
                self._next += 1
                self._numbers[identity] = number
                self._held[number] = tuple((name, array.data) for name, array in record.items())
                blob = array_record_to_proto(record).SerializeToString()
                frames.append(_frame({"model": number, "forget": self._forgotten()}, blob))
            shared[key] = number
        order = list(message.content)
        bare = message_to_proto(_with_content(message, rest)).SerializeToString()
        frames.append(_frame({"shared": shared, "order": order}, bare))
        return frames

    def _forgotten(self) -> int | None:
        """Return the oldest model, if there are too many."""
        if len(self._held) <= _KEPT:
            return None
        oldest = min(self._held)
        del self._held[oldest]
        self._numbers = {identity: number for identity, number in self._numbers.items() if number != oldest}
        return oldest


@dataclass
class Receiver:
    """Reads, in a worker, what a `Sender` has written."""

    _models: dict[int, ArrayRecord] = field(default_factory=dict, init=False)

    def read(self, frame: bytes) -> Message | None:
        """Return a message; None for a model, which is kept for the messages that follow."""
        header, blob = _unframe(frame)
        number = header.get("model")
        if isinstance(number, int):
            self._models[number] = array_record_from_proto(ProtoArrayRecord.FromString(blob))
            forget = header.get("forget")
            if isinstance(forget, int):
                del self._models[forget]
            return None
        message = message_from_proto(ProtoMessage.FromString(blob))
        shared, order = header["shared"], header["order"]
        assert isinstance(shared, dict)  # noqa: S101 - a Sender wrote it
        assert isinstance(order, list)  # noqa: S101
        content = message.content
        message.content = RecordDict(
            {key: _own_copy(self._models[shared[key]]) if key in shared else content[key] for key in order}
        )
        return message


@dataclass(frozen=True)
class Done:
    """A reply, and what else there is to say of it."""

    reply: Message
    has_state: bool  # its node has something to remember
    took_s: float


def reply_to_bytes(done: Done) -> bytes:
    """Return a reply as bytes."""
    return _frame({"state": done.has_state, "took": done.took_s}, message_to_proto(done.reply).SerializeToString())


def reply_from_bytes(frame: bytes) -> Done:
    """Return what `reply_to_bytes` was given."""
    header, blob = _unframe(frame)
    took = header["took"]
    assert isinstance(took, float)  # noqa: S101 - a worker of ours wrote it
    return Done(message_from_proto(ProtoMessage.FromString(blob)), bool(header["state"]), took)


def packed(frames: Sequence[bytes]) -> bytes:
    """Return several frames as one.

    >>> unpacked(packed([b"one", b"", b"three"]))
    [b'one', b'', b'three']
    """
    return b"".join(part for frame in frames for part in (len(frame).to_bytes(8, "little"), frame))


def unpacked(frame: bytes) -> list[bytes]:
    """Return the frames that `packed` was given."""
    found, at = [], 0
    while at < len(frame):
        size = int.from_bytes(frame[at : at + 8], "little")
        found.append(frame[at + 8 : at + 8 + size])
        at += 8 + size
    return found


def own_message(message: Message) -> Message:
    """Return a message whose records the receiver may change: a strategy gives all nodes the same ones."""
    content = {
        key: _own_copy(record) if isinstance(record, ArrayRecord) else record.copy()
        for key, record in message.content.items()
    }
    return _with_content(message, RecordDict(content))


def _own_copy(record: ArrayRecord) -> ArrayRecord:
    # The bytes are shared, and cannot be changed; all around them is new.
    return ArrayRecord(
        {name: Array(array.dtype, array.shape, array.stype, array.data) for name, array in record.items()}
    )


def _with_content(message: Message, content: RecordDict) -> Message:
    return make_message(metadata=message.metadata, content=content)


def _frame(header: Mapping[str, object], blob: bytes) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(4, "little") + text + blob


def _unframe(frame: bytes) -> tuple[dict[str, object], bytes]:
    size = int.from_bytes(frame[:4], "little")
    header = json.loads(frame[4 : 4 + size])
    if not isinstance(header, dict):
        raise ValueError(f"expected a frame of our own, got {frame[:40]!r}")
    return header, frame[4 + size :]
