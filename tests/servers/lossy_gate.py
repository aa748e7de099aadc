"""A way to a broker of Apache Kafka on which some packets are lost, in one direction.

TCP sends a lost packet again and again, and whatever is behind it waits. So a connection on which
something is lost stands still in that direction, and when the loss ends all of it arrives: late
requests of a client that has given up long ago included.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from enum import Enum
from typing import Final, Self

CHUNK: Final = 65_536
PRODUCE: Final = 0
JOIN_GROUP, HEARTBEAT, SYNC_GROUP = 11, 12, 14


class Loss(Enum):
    """What is lost."""

    REQUESTS = "requests"
    ANSWERS = "answers"
    WRITES = "writes"
    HEARTBEATS = "heartbeats"

    def hits(self, api_key: int) -> bool:
        """Whether a request is lost."""
        match self:
            case Loss.REQUESTS:
                return True
            case Loss.WRITES:
                return api_key == PRODUCE
            case Loss.HEARTBEATS:
                return api_key in (JOIN_GROUP, HEARTBEAT, SYNC_GROUP)
            case Loss.ANSWERS:
                return False


class LossyGate:
    """Listens at ``port`` and passes bytes on to ``target``. Use it in a ``with`` statement."""

    def __init__(self) -> None:
        self.target = 0
        self._lost: Loss | None = None
        self._changed = threading.Condition()
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.lose(None)
        for one in self._sockets:
            one.close()

    def lose(self, what: Loss | None) -> None:
        """Lose this from now on; None: nothing, and what was lost arrives."""
        with self._changed:
            self._lost = what
            self._changed.notify_all()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                broker = socket.create_connection(("127.0.0.1", self.target))
            except OSError:  # the broker is dead
                client.close()
                continue
            self._sockets += client, broker
            for passes_on, ends in (
                (self._requests, (client, broker)),
                (self._answers, (broker, client)),
            ):
                threading.Thread(target=passes_on, args=ends, daemon=True).start()

    def _requests(self, client: socket.socket, broker: socket.socket) -> None:
        with suppress(OSError), client.makefile("rb") as stream:
            while len(size := stream.read(4)) == 4:
                request = stream.read(int.from_bytes(size))
                api_key = int.from_bytes(request[:2])
                with self._changed:
                    while self._lost is not None and self._lost.hits(api_key):
                        self._changed.wait()
                broker.sendall(size + request)
        _end(broker)

    def _answers(self, broker: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := broker.recv(CHUNK):
                with self._changed:
                    while self._lost is Loss.ANSWERS:
                        self._changed.wait()
                client.sendall(data)
        _end(client)


def _end(other: socket.socket) -> None:
    """One side has ended: the other side is told so."""
    with suppress(OSError):
        other.shutdown(socket.SHUT_RDWR)
