"""One TCP connection to one broker: many requests in flight, answered in order.

The connection knows nothing of topics or groups. It negotiates versions (ApiVersions, KIP-35 and
KIP-511), frames requests, matches responses, and turns every way in which a connection can end into
one error for every waiting request.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Any, Final, NamedTuple, cast

from sharegroup import __version__
from sharegroup.client.versions import CLIENT_VERSIONS
from sharegroup.model.errors import (
    MalformedMessage,
    NetworkException,
    RequestTimedOut,
    UnsupportedVersion,
    error_from_code,
)
from sharegroup.wire.apis import API_VERSIONS, Api
from sharegroup.wire.codec import decode
from sharegroup.wire.framing import FrameSplitter, request_frame, response_body
from sharegroup.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from sharegroup.wire.schema import Message

log = logging.getLogger("sharegroup.client")

FRAME_BYTES_MAX: Final = 2**31 - 1
"""A response may be as long as its length can say: one record batch is always sent whole."""

_UNSUPPORTED_VERSION: Final = UnsupportedVersion.code


class _Waiting(NamedTuple):
    """A request that is not answered yet."""

    correlation_id: int
    api: Api
    version: int
    answer: asyncio.Future[Any]


class Connection(asyncio.Protocol):
    """A connection that is ready to use; made by :meth:`open`.

    Attributes:
        address: ``host:port``, for messages.
        features: supported features of the broker, name → (lowest, highest level).
    """

    def __init__(self, address: str, client_id: str) -> None:
        self.address = address
        self.features: dict[str, tuple[int, int]] = {}
        self._client_id = client_id
        self._versions: dict[int, tuple[int, int]] = {}
        self._splitter = FrameSplitter(FRAME_BYTES_MAX)
        self._waiting: deque[_Waiting] = deque()
        self._correlation_id = 0
        self._transport: asyncio.Transport | None = None
        self._lost: NetworkException | None = None

    @classmethod
    async def open(cls, host: str, port: int, *, client_id: str, timeout_ms: int) -> Connection:
        """Connect and negotiate versions.

        Raises:
            NetworkException: nobody listens there, or not a Kafka broker, or not within
                ``timeout_ms``.
        """
        address = f"{host}:{port}"
        loop = asyncio.get_running_loop()
        connection = cls(address, client_id)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await loop.create_connection(lambda: connection, host, port)
                await connection._negotiate(timeout_ms)
        except BaseException as error:
            connection.close()
            if isinstance(error, TimeoutError):
                raise NetworkException(f"{address} did not answer in {timeout_ms} ms") from None
            if isinstance(error, OSError):
                raise NetworkException(f"{address}: {error.strerror or error}") from None
            raise
        return connection

    @property
    def closed(self) -> bool:
        """No request can be sent any more."""
        return self._lost is not None

    def version_of(self, api: Api) -> int:
        """The version that requests of ``api`` will have.

        Raises:
            UnsupportedVersion: broker and client have none in common.
        """
        lowest, highest = CLIENT_VERSIONS[api]
        theirs = self._versions.get(api.key)
        if theirs is None:
            raise UnsupportedVersion(f"the broker at {self.address} does not serve {api.name}")
        version = min(highest, theirs[1])
        if version < max(lowest, theirs[0]):
            raise UnsupportedVersion(
                f"the broker at {self.address} serves {api.name} {theirs[0]}-{theirs[1]}, this "
                f" client speaks {lowest}-{highest}"
            )
        return version

    def post(self, api: Api, request: Message) -> asyncio.Future[Any]:
        """Send now; the future is the response message, or NetworkException.

        Raises:
            NetworkException: the connection has gone.
            UnsupportedVersion: see :meth:`version_of`.
        """
        return self._post(api, self.version_of(api), request)

    async def send(self, api: Api, request: Message, *, timeout_ms: int) -> Any:
        """Send and await the response. A request that times out closes the connection: answers come
        in order, so nothing behind it could be answered either.

        Raises:
            NetworkException, UnsupportedVersion: as :meth:`post`.
            RequestTimedOut: no response within ``timeout_ms``.
        """
        answer = self.post(api, request)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await answer
        except TimeoutError:
            text = f"{self.address} did not answer {api.name} in {timeout_ms} ms"
            self._lose(NetworkException(text))
            raise RequestTimedOut(text) from None

    def close(self) -> None:
        """Close at once; requests that wait fail with NetworkException."""
        self._lose(NetworkException(f"the connection to {self.address} was closed"))

    def _post(self, api: Api, version: int, request: Message) -> asyncio.Future[Any]:
        if self._lost is not None or self._transport is None:
            raise NetworkException(f"not connected to {self.address}")
        correlation_id = self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        chunks = request_frame(api, version, correlation_id, self._client_id, request)
        answer = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(correlation_id, api, version, answer))
        self._transport.writelines(chunks)
        return answer

    # --- ApiVersions ------------------------------------------------------------------------------

    async def _negotiate(self, timeout_ms: int) -> None:
        version = CLIENT_VERSIONS[API_VERSIONS][1]
        response = await self._ask_versions(version)
        if response.error_code == _UNSUPPORTED_VERSION:
            theirs = [
                key.max_version for key in response.api_keys if key.api_key == API_VERSIONS.key
            ]
            response = await self._ask_versions(min(version - 1, *theirs, version))
        if response.error_code:
            raise error_from_code(response.error_code)
        self._versions = {
            key.api_key: (key.min_version, key.max_version) for key in response.api_keys
        }
        self.features = {
            feature.name: (feature.min_version, feature.max_version)
            for feature in response.supported_features
        }

    async def _ask_versions(self, version: int) -> ApiVersionsResponse:
        request = ApiVersionsRequest(
            client_software_name="sharegroup", client_software_version=__version__
        )
        response: ApiVersionsResponse = await self._post(API_VERSIONS, version, request)
        return response

    # --- asyncio.Protocol -------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._splitter.feed(data):
                self._answer(frame)
        except MalformedMessage as error:
            log.error("%s sent what is not a Kafka response: %s", self.address, error)
            self._lose(NetworkException(f"{self.address} sent a malformed response: {error}"))

    def connection_lost(self, error: Exception | None) -> None:
        reason = f": {error}" if error else ""
        self._lose(NetworkException(f"the connection to {self.address} was lost{reason}"))

    def _answer(self, frame: bytes) -> None:
        if not self._waiting:
            raise MalformedMessage("a response to no request")
        correlation_id, api, version, answer = self._waiting.popleft()
        got, position = response_body(api, version, frame)
        if got != correlation_id:
            self._waiting.appendleft(_Waiting(correlation_id, api, version, answer))
            raise MalformedMessage(f"a response to request {got} where {correlation_id} is next")
        if answer.done():  # its caller has gone
            return
        try:
            answer.set_result(_decode_response(api, version, frame, position))
        except MalformedMessage as error:
            answer.set_exception(NetworkException(f"{self.address}: {error}"))
            raise

    def _lose(self, error: NetworkException) -> None:
        if self._lost is not None:
            return
        self._lost = error
        if self._transport is not None:
            self._transport.abort()
        while self._waiting:
            answer = self._waiting.popleft().answer
            if not answer.done():
                answer.set_exception(NetworkException(error.message))
                answer.exception()  # seen: a caller that has gone leaves no warning behind


def _decode_response(api: Api, version: int, frame: bytes, position: int) -> Message:
    if api is API_VERSIONS and frame[position : position + 2] == b"\0\x23":
        version = 0  # KIP-511: an ApiVersions refusal is always in version 0
    return decode(api.response, version, frame, position)
