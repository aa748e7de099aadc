"""A well-behaved client in a process of its own: it asks, and logs in anew now and then, until its
standard input ends; then it prints how long each took.

``python -m tests.secured.hostile.neighbour HOST:PORT USER PASSWORD``
"""

from __future__ import annotations

import json
import secrets
import select
import socket
import sys
import time
from dataclasses import dataclass
from typing import Any

from sharegroup.sasl.client import Login, PlainLogin, ScramLogin
from sharegroup.sasl.scram_keys import ScramMechanism
from sharegroup.wire import apis
from sharegroup.wire.apis import Api
from sharegroup.wire.codec import decode
from sharegroup.wire.framing import bare_frame, request_frame, response_body
from sharegroup.wire.messages.metadata import MetadataRequest
from sharegroup.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from sharegroup.wire.messages.sasl_handshake import SaslHandshakeRequest

SOURCE = "127.0.0.1"
REST_S = 0.01
REQUESTS_PER_LOGIN = 25
ANSWER_S = 60.0


class Client:
    """One connection."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, ANSWER_S, (SOURCE, 0))
        self._file = self._socket.makefile("rb")

    def ask(self, api: Api, version: int, request: Any) -> Any:
        self._socket.sendall(b"".join(request_frame(api, version, 1, "neighbour", request)))
        frame = self._receive()
        _, position = response_body(api, version, frame)
        return decode(api.response, version, frame, position)

    def login(self, login: Login) -> None:
        self.ask(apis.SASL_HANDSHAKE, 1, SaslHandshakeRequest(login.mechanism))
        message = login.first()
        while not login.done:
            answer = self.ask(apis.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(message))
            if answer.error_code:
                raise PermissionError(answer.error_message)
            message = login.next(bytes(answer.auth_bytes))

    def login_by_tokens(self, login: Login) -> None:
        """The same by SaslHandshake version 0, which has no words for a refusal."""
        self.ask(apis.SASL_HANDSHAKE, 0, SaslHandshakeRequest(login.mechanism))
        token = login.first()
        while not login.done:
            self._socket.sendall(bare_frame(token))
            try:
                token = login.next(self._receive())
            except ConnectionResetError as error:
                raise PermissionError(str(error)) from None

    def _receive(self) -> bytes:
        head = self._file.read(4)
        if len(head) < 4:
            raise ConnectionResetError("the broker has closed the connection")
        return self._file.read(int.from_bytes(head, "big"))

    def close(self) -> None:
        self._file.close()
        self._socket.close()


@dataclass(frozen=True)
class Times:
    """In milliseconds, sorted."""

    requests: list[float]
    logins: list[float]
    failures: list[str]


def measured(address: tuple[str, int], user: str, password: str) -> Times:
    """Ask until the standard input ends, but once at least: an attack may be quick."""
    requests: list[float] = []
    logins: list[float] = []
    failures: list[str] = []

    def logged_in(number: int) -> Client:
        begun = time.perf_counter()
        client = Client(address)
        nonce = secrets.token_hex(12)
        scram = ScramLogin(ScramMechanism.SHA_256, user, password, nonce)
        client.login(PlainLogin(user, password) if number % 2 else scram)
        logins.append(1000 * (time.perf_counter() - begun))
        return client

    client = logged_in(0)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while not (select.select([sys.stdin], [], [], REST_S)[0] and requests):
        begun = time.perf_counter()
        client.ask(apis.METADATA, 12, MetadataRequest([]))
        requests.append(1000 * (time.perf_counter() - begun))
        if len(requests) % REQUESTS_PER_LOGIN == 0:
            try:
                logged_in(len(logins)).close()
            except OSError as error:
                failures.append(f"{type(error).__name__}: {error}")
    client.close()
    return Times(sorted(requests), sorted(logins), failures)


if __name__ == "__main__":
    host, _, port = sys.argv[1].rpartition(":")
    found = measured((host, int(port)), sys.argv[2], sys.argv[3])
    sys.stdout.write(json.dumps(vars(found)))
