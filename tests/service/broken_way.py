"""A way to a service that can break: bytes pass both ways, until nothing does, or until an answer is lost on it."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class BrokenWay:
    """Passes connections on to an address, from one of its own."""

    def __init__(self, address: str) -> None:
        host, port = address.removeprefix("http://").split(":")
        self._to = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.is_cut = False
        self.loses_after = b""  # the answer to the next request with these bytes in it is lost
        self.breaks_off_after = 0  # bytes on their way back, once
        self.passed_back = 0  # bytes
        self.came = 0  # connections
        self._start(self._accept)

    def _start(self, work: object, *args: object) -> None:
        thread = threading.Thread(target=work, args=args)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            self.came += 1
            if self.is_cut:
                near.close()
                continue
            far = socket.create_connection(self._to)
            self._open += [near, far]
            losing = threading.Event()
            self._start(self._pass, near, far, losing, True)
            self._start(self._pass, far, near, losing, False)

    def _pass(self, one: socket.socket, other: socket.socket, losing: threading.Event, asks: bool) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(65_536):
                if asks and self.loses_after and self.loses_after in data:
                    self.loses_after = b""
                    losing.set()
                if not asks and losing.is_set():
                    break
                self.passed_back += 0 if asks else len(data)
                if 0 < self.breaks_off_after <= self.passed_back:
                    self.breaks_off_after = 0
                    break
                other.sendall(data)
        for end in (one, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        """Let nothing pass any more."""
        self.is_cut = True
        for one in self._open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        """Let everything pass again."""
        self.is_cut = False

    def close(self) -> None:
        """End it."""
        self.cut()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(10)
        for one in self._open:
            one.close()


@contextmanager
def broken_way(address: str) -> Iterator[BrokenWay]:
    way = BrokenWay(address)
    try:
        yield way
    finally:
        way.close()
