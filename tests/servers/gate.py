"""A way to a broker that can be shut: the client's connections break, and the broker notices
nothing, as where a network is parted.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Self

CHUNK = 65_536


class Gate:
    """Listens at ``port`` and passes bytes on to ``target``. Use it in a ``with`` statement."""

    def __init__(self) -> None:
        self.target = 0
        self._open = True
        self._clients: list[socket.socket] = []
        self._brokers: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in (*self._clients, *self._brokers):
            one.close()

    def shut(self) -> None:
        """Break the clients' connections and refuse new ones; those to the broker stay."""
        self._open = False
        for client in self._clients:
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)

    def open(self) -> None:
        """New connections pass."""
        self._open = True

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if not self._open:
                client.close()
                continue
            broker = socket.create_connection(("127.0.0.1", self.target))
            self._clients.append(client)
            self._brokers.append(broker)
            for ends in ((client, broker), (broker, client)):
                threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    def _pass_on(self, source: socket.socket, to: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(CHUNK):
                to.sendall(data)
