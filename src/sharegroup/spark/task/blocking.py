"""One TCP connection to one broker for straight-line code: what a Spark task on an executor reads
through.

The driver's side uses the asyncio client. A task is one generator that must not start threads or
loops, so it gets a plain socket with a time limit, on the same frames and messages.
"""

from __future__ import annotations

import socket
import struct
from typing import Any, Final, TypeVar, cast

from sharegroup import __version__
from sharegroup.client.addresses import Address
from sharegroup.model.errors import (
    MalformedMessage,
    NetworkException,
    UnsupportedVersion,
    error_from_code,
)
from sharegroup.wire import apis
from sharegroup.wire.apis import Api
from sharegroup.wire.codec import decode
from sharegroup.wire.framing import request_frame, response_body
from sharegroup.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from sharegroup.wire.schema import Message

M = TypeVar("M", bound=Message)

API_VERSIONS_VERSION: Final = 3
"""Every broker that serves share groups (Apache Kafka 4.0 on) has it."""
CONNECT_SECONDS: Final = 10.0
VERSIONS: Final[dict[Api, tuple[int, int]]] = {
    apis.FETCH: (
        13,
        17,
    ),  # from 13 on topics are named by id, so a topic made anew is not taken for the old one
    apis.LIST_OFFSETS: (7, 10),
    apis.METADATA: (10, 13),
}
_LENGTH = struct.Struct(">i")


class BlockingConnection:
    """Requests in order, responses in order; one of each may be under way.

    Raises:
        NetworkException: from every method, when the broker cannot be reached, does not answer in
            time or sends what is not Kafka. The connection is of no use after it.
        UnsupportedVersion: from :meth:`send`, when broker and client have no version in common.
    """

    def __init__(self, address: Address, *, client_id: str, timeout_ms: int) -> None:
        self.address = address
        self._client_id = client_id
        self._correlation_id = 0
        self._timeout_s = timeout_ms / 1000
        try:
            self._socket = socket.create_connection(
                address, timeout=min(CONNECT_SECONDS, self._timeout_s)
            )
        except OSError as error:
            raise NetworkException(f"{address} cannot be reached: {error}") from error
        self._socket.settimeout(self._timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._waiting: tuple[Api, int] | None = None
        self._versions: dict[int, tuple[int, int]] = {}
        try:
            self._versions = self._ask_versions()
        except BaseException:
            self.close()
            raise

    @property
    def idle(self) -> bool:
        """No response is outstanding."""
        return self._waiting is None

    def call(self, api: Api, request: Message, kind: type[M]) -> M:
        """Send and receive."""
        self.send(api, request)
        return self.receive(kind)

    def send(self, api: Api, request: Message) -> None:
        """Send a request; :meth:`receive` must follow before the next one."""
        self._send(api, self._version(api), request)

    def receive(self, kind: type[M]) -> M:
        """The response to the request sent last. Record data in it is a view of the received
        bytes."""
        assert self._waiting is not None, "nothing was sent"
        api, version = self._waiting
        try:
            frame = self._frame()
            correlation_id, position = response_body(api, version, frame)
            if correlation_id != self._correlation_id:
                raise MalformedMessage(f"a response to request {correlation_id}")
            response = decode(kind, version, frame, position)
        except (OSError, MalformedMessage) as error:
            raise NetworkException(f"{self.address}, {api.name}: {error}") from error
        self._waiting = None
        return response

    def close(self) -> None:
        """Close it; nothing is sent."""
        self._socket.close()

    def _send(self, api: Api, version: int, request: Message) -> None:
        assert self._waiting is None, "one request at a time"
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        chunks = request_frame(api, version, self._correlation_id, self._client_id, request)
        try:
            self._socket.sendall(b"".join(chunks))
        except OSError as error:
            raise NetworkException(f"{self.address}, {api.name}: {error}") from error
        self._waiting = (api, version)

    def _frame(self) -> bytes:
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        if length < 0:
            raise MalformedMessage(f"a frame of {length} bytes")
        # The codec slices what it reads; slices of a view are not copies, and record data is nearly
        # all there is.
        return cast(bytes, self._exactly(length))

    def _exactly(self, size: int) -> memoryview:
        whole = memoryview(bytearray(size))
        rest = whole
        while rest:
            received = self._socket.recv_into(rest)
            if not received:
                raise ConnectionError("the broker closed the connection")
            rest = rest[received:]
        return whole

    def _version(self, api: Api) -> int:
        ours, theirs = VERSIONS[api], self._versions.get(api.key, (0, -1))
        version = min(ours[1], theirs[1])
        if version < max(ours[0], theirs[0]):
            raise UnsupportedVersion(
                f"the broker at {self.address} serves {api.name} in versions {theirs[0]} to "
                f"{theirs[1]}; {ours[0]} to {ours[1]} are needed"
            )
        return version

    def _ask_versions(self) -> dict[int, tuple[int, int]]:
        request: Any = ApiVersionsRequest(
            client_software_name="sharegroup", client_software_version=__version__
        )
        self._send(apis.API_VERSIONS, API_VERSIONS_VERSION, request)
        response = self.receive(ApiVersionsResponse)
        if response.error_code:
            raise NetworkException(f"{self.address}: {error_from_code(response.error_code)}")
        return {key.api_key: (key.min_version, key.max_version) for key in response.api_keys}
