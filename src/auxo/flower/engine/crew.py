"""Worker processes that run a ClientApp for nodes, one core each; a node is served by one of them at a time."""

import gc
import queue
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait

from flwr.app import Message
from flwr.common.constant import ErrorCode
from flwr.supercore.task_identity import TaskIdentity

from auxo.flower.engine.nodes import RUN_ID, SimulatedNodes, error_reply
from auxo.flower.engine.wire import Done, Receiver, Sender, packed, reply_from_bytes, reply_to_bytes, unpacked
from auxo.runtime.forked import Forked, end, fork
from auxo.runtime.patience import AtWork, Patience

_SHORTEST_S, _LONGEST_S = 0.005, 0.05  # of work that goes to a worker at once; this and the next are our choice
_FLUSH_S = 0.02  # that a reply waits for others to travel with


@dataclass
class _Worker(Forked):
    sender: Sender = field(default_factory=Sender)
    given: dict[str, Message] = field(default_factory=dict)  # by id of the message, in order, not answered yet
    at_work: AtWork | None = None  # on the first of these, None while there is none


@dataclass
class Crew:
    """Forked workers. A node whose app has stored something stays with the worker that has it.

    A worker that dies, is stopped or hangs is replaced. The first message that it has not answered is answered with an
    error, the others are given out again; its nodes start with an empty state, as SuperNodes do that are started again.
    """

    nodes: SimulatedNodes
    workers: int
    patience: Patience = field(default_factory=Patience)
    _crew: list[_Worker] = field(default_factory=list, init=False)
    _home: dict[int, _Worker] = field(default_factory=dict, init=False)  # of nodes with a state
    _waiting: deque[Message] = field(default_factory=deque, init=False)
    _busy: set[int] = field(default_factory=set, init=False)  # nodes
    _takes_s: float = field(default=_LONGEST_S, init=False)  # a message, in the mean of the last ones

    def start(self) -> None:
        """Fork the workers; before anything else has started threads."""
        self._crew = [self._hire() for _ in range(self.workers)]

    def stop(self) -> None:
        """End the workers; what they are doing is lost."""
        end(self._crew)
        self._crew = []

    def give(self, message: Message) -> None:
        """Have a message answered, when its node is free."""
        self._waiting.append(message)

    def replies(self, timeout_s: float) -> list[Message]:
        """Return what has been answered, and wait so long for a first one."""
        self._hand_out()
        found: list[Message] = []
        connections = {worker.connection: worker for worker in self._crew}
        for ready in wait(list(connections), timeout_s):
            assert isinstance(ready, Connection)  # noqa: S101 - nothing else was waited for
            found += self._read(connections[ready])
        for worker in list(self._crew):
            found += self._lost(worker)
        self._hand_out()
        return found

    def _read(self, worker: _Worker) -> list[Message]:
        found = []
        try:
            while worker.connection.poll():
                for frame in unpacked(worker.connection.recv_bytes()):
                    done = reply_from_bytes(frame)
                    message = worker.given.pop(done.reply.metadata.reply_to_message_id)
                    node = message.metadata.dst_node_id
                    self._busy.discard(node)
                    if done.has_state:
                        self._home[node] = worker
                    self._takes_s += 0.1 * (done.took_s - self._takes_s)
                    found.append(done.reply)
                    if worker.at_work is not None:
                        self.patience.finish(worker.at_work, 1)
                    worker.at_work = self.patience.begin() if worker.given else None
        except (EOFError, OSError):
            found += self._replace(worker, "died")
        return found

    def _lost(self, worker: _Worker) -> list[Message]:
        """Replace a worker that is taken for lost, and return what is to be said in its name."""
        if worker.at_work is None:
            return []
        self.patience.hear(worker.at_work, worker.beats())
        why = self.patience.why_lost(worker.at_work, 1)
        if why is None:
            return []
        worker.process.kill()
        return self._replace(worker, why)

    def _replace(self, worker: _Worker, what: str) -> list[Message]:
        """Put a new worker in the place of a lost one, and return what is to be said in its name."""
        worker.process.join()
        worker.connection.close()
        self._crew[next(place for place, other in enumerate(self._crew) if other is worker)] = self._hire()
        self._home = {node: home for node, home in self._home.items() if home is not worker}
        unanswered = list(worker.given.values())
        self._busy -= {message.metadata.dst_node_id for message in unanswered}
        self._waiting.extendleft(reversed(unanswered[1:]))
        reason = f"the worker process of this node {what} (exit code {worker.process.exitcode})"
        return [error_reply(message, ErrorCode.CLIENT_APP_CRASHED, reason) for message in unanswered[:1]]

    def _hand_out(self) -> None:
        """Give workers what is waiting, in order, to each node one message at a time."""
        while self._waiting:
            # Large pieces first, small ones at the end: nobody waits long for the last.
            least, most = (max(1, int(share / max(self._takes_s, 1e-6))) for share in (_SHORTEST_S, _LONGEST_S))
            size = min(most, max(least, len(self._waiting) // (2 * self.workers)))
            free = [worker for worker in self._crew if len(worker.given) <= most]  # so that none waits for this process
            chunks = self._chunks(free, size)
            if not chunks:
                return
            for worker, messages in chunks:
                self._send(worker, messages)

    def _chunks(self, free: Sequence[_Worker], size: int) -> list[tuple[_Worker, list[Message]]]:
        """Take what is waiting for free workers, at most so much for each."""
        chunks: list[tuple[_Worker, list[Message]]] = [(worker, []) for worker in free]
        kept: list[Message] = []
        passed_over: set[int] = set()  # nodes whose messages stay in order
        while self._waiting and any(len(messages) < size for _, messages in chunks):
            message = self._waiting.popleft()
            node = message.metadata.dst_node_id
            home = self._home.get(node)
            open_to_it = [
                messages for worker, messages in chunks if len(messages) < size and (home is None or worker is home)
            ]
            if node in self._busy or node in passed_over or not open_to_it:
                passed_over.add(node)
                kept.append(message)
                continue
            self._busy.add(node)
            min(open_to_it, key=len).append(message)
        self._waiting.extendleft(reversed(kept))
        return [(worker, messages) for worker, messages in chunks if messages]

    def _send(self, worker: _Worker, messages: Sequence[Message]) -> None:
        frames = []
        for message in messages:
            worker.given[message.metadata.message_id] = message
            worker.at_work = worker.at_work or self.patience.begin()
            frames += worker.sender.frames(message)
        try:
            worker.connection.send_bytes(packed(frames))
        except OSError:  # it is dead; the next look at its connection finds out
            return

    def _hire(self) -> _Worker:
        forked = fork(_work, self.nodes)
        return _Worker(forked.process, forked.connection, forked.pulse)


def _work(connection: Connection, nodes: SimulatedNodes) -> None:
    """Be a worker until the parent is gone or kills us."""
    gc.freeze()  # all that was there before the fork stays, for a worker that is hired later, too
    chunks: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    # Read ahead: a parent that waits to be read, while we wait for it to read, would wait for ever.
    threading.Thread(target=_read_all, args=(connection, chunks), daemon=True).start()
    receiver = Receiver()
    TaskIdentity.task_id, TaskIdentity.run_id = RUN_ID, RUN_ID
    while (chunk := chunks.get()) is not None:
        try:
            _answer(connection, nodes, receiver, unpacked(chunk))
        except OSError:
            return


def _answer(connection: Connection, nodes: SimulatedNodes, receiver: Receiver, frames: Sequence[memoryview]) -> None:
    """Answer a chunk of messages; replies of fast apps travel together, those of slow ones at once."""
    replies: list[bytes] = []
    sent_s = time.monotonic()
    for frame in frames:
        message = receiver.read(frame)
        if message is None:
            continue
        node = TaskIdentity.node_id = message.metadata.dst_node_id
        began_s = time.monotonic()
        reply = nodes.answer(message)
        replies.append(reply_to_bytes(Done(reply, nodes.has_state(node), time.monotonic() - began_s)))
        if time.monotonic() - sent_s > _FLUSH_S:
            connection.send_bytes(packed(replies))
            replies, sent_s = [], time.monotonic()
    if replies:
        connection.send_bytes(packed(replies))


def _read_all(connection: Connection, chunks: "queue.SimpleQueue[bytes | None]") -> None:
    try:
        while True:
            chunks.put(connection.recv_bytes())
    except (EOFError, OSError):
        chunks.put(None)
