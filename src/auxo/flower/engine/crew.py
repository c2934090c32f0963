"""Worker processes that run a ClientApp for nodes, one core each; a node is served by one of them at a time."""

import multiprocessing
import os
import queue
import signal
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess

from flwr.app import Message
from flwr.common.constant import ErrorCode
from flwr.supercore.task_identity import TaskIdentity
from threadpoolctl import threadpool_limits

from auxo.flower.engine.nodes import RUN_ID, SimulatedNodes, failed
from auxo.flower.engine.wire import Receiver, Sender, reply_from_bytes, reply_to_bytes

_AHEAD = 8  # messages that a worker has been given: it does not wait for this process between them; our choice
_HEARTBEAT_S = 0.5  # how often a worker looks whether its parent still lives; our choice


@dataclass
class _Worker:
    process: ForkProcess
    connection: Connection
    sender: Sender = field(default_factory=Sender)
    given: dict[str, Message] = field(default_factory=dict)  # by id of the message, not answered yet


@dataclass
class Crew:
    """Forked workers. A node whose app has stored something stays with the worker that has it.

    A worker that dies is replaced: what it was given is answered with an error, and its nodes start with an empty state, as
    SuperNodes do that are started again.
    """

    nodes: SimulatedNodes
    workers: int
    _crew: list[_Worker] = field(default_factory=list, init=False)
    _home: dict[int, _Worker] = field(default_factory=dict, init=False)  # of nodes with a state
    _waiting: deque[Message] = field(default_factory=deque, init=False)
    _busy: set[int] = field(default_factory=set, init=False)  # nodes

    def start(self) -> None:
        """Fork the workers; before anything else has started threads."""
        self._crew = [self._hire() for _ in range(self.workers)]

    def stop(self) -> None:
        """End the workers; what they are doing is lost."""
        for worker in self._crew:
            worker.process.kill()
        for worker in self._crew:
            worker.process.join()
            worker.connection.close()
        self._crew = []

    def give(self, message: Message) -> None:
        """Have a message answered, when its node is free."""
        self._waiting.append(message)

    @property
    def is_idle(self) -> bool:
        """Return whether nothing is waiting or under way."""
        return not (self._waiting or self._busy)

    def replies(self, timeout_s: float) -> list[Message]:
        """Return what has been answered, and wait so long for a first one."""
        self._hand_out()
        found: list[Message] = []
        connections = {worker.connection: worker for worker in self._crew}
        for ready in wait(list(connections), timeout_s):
            assert isinstance(ready, Connection)  # noqa: S101 - nothing else was waited for
            found += self._read(connections[ready])
        self._hand_out()
        return found

    def _read(self, worker: _Worker) -> list[Message]:
        found = []
        try:
            while worker.connection.poll():
                reply, has_state = reply_from_bytes(worker.connection.recv_bytes())
                message = worker.given.pop(reply.metadata.reply_to_message_id)
                node = message.metadata.dst_node_id
                self._busy.discard(node)
                if has_state:
                    self._home[node] = worker
                found.append(reply)
        except (EOFError, OSError):
            found += self._replace(worker)
        return found

    def _replace(self, worker: _Worker) -> list[Message]:
        """Put a new worker in the place of a dead one, and return what is to be said in its name."""
        worker.process.join()
        reason = f"the worker process of this node died (exit code {worker.process.exitcode})"
        replies = [failed(message, ErrorCode.CLIENT_APP_CRASHED, reason) for message in worker.given.values()]
        self._busy -= {message.metadata.dst_node_id for message in worker.given.values()}
        self._home = {node: home for node, home in self._home.items() if home is not worker}
        worker.connection.close()
        self._crew[next(place for place, other in enumerate(self._crew) if other is worker)] = self._hire()
        return replies

    def _hand_out(self) -> None:
        """Give workers what is waiting, in order, to each node one message at a time."""
        kept: list[Message] = []
        passed_over: set[int] = set()  # nodes whose messages stay in order
        while self._waiting and any(len(worker.given) < _AHEAD for worker in self._crew):
            message = self._waiting.popleft()
            node = message.metadata.dst_node_id
            worker = self._home.get(node) or min(self._crew, key=lambda worker: len(worker.given))
            if node in self._busy or node in passed_over or len(worker.given) >= _AHEAD:
                passed_over.add(node)
                kept.append(message)
            else:
                self._send(worker, message)
        self._waiting.extendleft(reversed(kept))

    def _send(self, worker: _Worker, message: Message) -> None:
        self._busy.add(message.metadata.dst_node_id)
        worker.given[message.metadata.message_id] = message
        try:
            for frame in worker.sender.frames(message):
                worker.connection.send_bytes(frame)
        except OSError:  # it is dead; the next look at its connection finds out
            return

    def _hire(self) -> _Worker:
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, self.nodes, os.getpid()), daemon=True)
        process.start()
        theirs.close()
        return _Worker(process, ours)


def _work(connection: Connection, nodes: SimulatedNodes, parent: int) -> None:
    """Be a worker until the parent is gone or kills us."""
    _end_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that waits for us
    _use_one_core()
    frames: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    # Read ahead: a parent that waits to be read, while we wait for it to read, would wait for ever.
    threading.Thread(target=_read_all, args=(connection, frames), daemon=True).start()
    receiver = Receiver()
    TaskIdentity.task_id, TaskIdentity.run_id = RUN_ID, RUN_ID
    while (frame := frames.get()) is not None:
        message = receiver.read(frame)
        if message is None:
            continue
        node = TaskIdentity.node_id = message.metadata.dst_node_id
        reply = nodes.answer(message)
        try:
            connection.send_bytes(reply_to_bytes(reply, has_state=nodes.has_state(node)))
        except OSError:
            return


def _read_all(connection: Connection, frames: "queue.SimpleQueue[bytes | None]") -> None:
    try:
        while True:
            frames.put(connection.recv_bytes())
    except (EOFError, OSError):
        frames.put(None)


def _use_one_core() -> None:
    os.environ["OMP_NUM_THREADS"] = "1"  # for libraries that are loaded later
    threadpool_limits(1)


def _end_with(parent: int) -> None:
    """Have this process end soon after its parent, whatever it is doing then: nobody waits for the result."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_HEARTBEAT_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
