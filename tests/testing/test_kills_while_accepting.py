"""A broker of a test that is killed while clients connect closes all of its sockets."""

from __future__ import annotations

import gc
import socket
import threading

import pytest

from sharegroup.testing import broker

KILLS = 10
CLIENTS = 3


@pytest.mark.filterwarnings("error::ResourceWarning")
def test_a_kill_closes_the_sockets_of_clients_that_were_being_accepted() -> None:
    ended = threading.Event()

    def connect(port: int) -> None:
        while not ended.is_set():
            try:
                socket.create_connection(("127.0.0.1", port), 5).close()
            except OSError:
                continue  # it is being killed

    with broker() as kafka:
        port = int(kafka.bootstrap.rpartition(":")[2])
        clients = [threading.Thread(target=connect, args=(port,)) for _ in range(CLIENTS)]
        for client in clients:
            client.start()
        try:
            for _ in range(KILLS):
                kafka.kill()
                kafka.start()
        finally:
            ended.set()
            for client in clients:
                client.join()
    gc.collect()  # a socket that is still open shows now, and fails this test
