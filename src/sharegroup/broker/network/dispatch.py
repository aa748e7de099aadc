"""Routes a request frame to its handler and encodes the response; maps errors to error responses.

An error that a handler raises becomes the error response for the whole request. Errors of single
topics or partitions are up to the handler. A malformed request closes its connection, as in Kafka.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import fields
from typing import Any, Final, Protocol

from sharegroup.broker.authorization.access import Access
from sharegroup.broker.authorization.audit import REQUEST
from sharegroup.broker.authorization.authorizer import Authorizer
from sharegroup.broker.delivery.share_requests import check_acknowledges
from sharegroup.broker.network.api_table import (
    API_TABLE,
    CARRIES_ACKNOWLEDGEMENTS,
    NEEDS_SHARE_VERSION,
    ServedApi,
    check_length,
    served_apis,
)
from sharegroup.broker.network.endpoint import Endpoint
from sharegroup.broker.network.outgoing import Chunk
from sharegroup.broker.network.within_quotas import WithinQuotas
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext, nothing
from sharegroup.model import errors
from sharegroup.model.limits import REQUEST_ARRAY_MAX
from sharegroup.quotas.connection_rates import ConnectionAdmission
from sharegroup.wire.apis import API_VERSIONS
from sharegroup.wire.codec import decode, encode_bytes
from sharegroup.wire.framing import RequestHeader, parse_request_header, response_frame
from sharegroup.wire.messages.api_versions import ApiVersionsResponse

NODE: Final = "another node"
"""The client id, and the connection, of requests that come from a node of the fleet."""


class AskingClient(Protocol):
    """A connection, as this module sees it."""

    access: Access
    endpoint: Endpoint

    @property
    def client_host(self) -> str:
        """The peer's address as Kafka writes it in descriptions of groups."""
        ...

    def answer_bytes_max(self) -> int:
        """How many bytes of records the next answer may have."""
        ...

    def mute(self, seconds: float) -> None:
        """Start no request for this long."""
        ...


class Dispatcher:
    """Routes the requests of all connections of one broker.

    ``authorizer`` may be replaced while the broker runs.
    """

    def __init__(self, parts: BrokerParts, authorizer: Authorizer) -> None:
        self._parts = parts
        self._counters = parts.counters
        self.authorizer = authorizer
        self._now_s = asyncio.get_running_loop().time

    def access(self, principal: str, host: str) -> Access:
        """The access rights of ``principal`` that connects from ``host``."""
        return Access(self.authorizer, principal, host, self._counters)

    def admission(self, host: str) -> ConnectionAdmission:
        """Whether a new connection from ``host`` has to wait, by quotas."""
        return self._parts.quotas.admit(host)

    def malformed(self, connection: AskingClient, error: errors.MalformedMessage) -> None:
        """Log a malformed request; its connection is being closed."""
        sentence = f"closing the connection from {connection.client_host}: {error}"
        self._counters.say(logging.WARNING, "malformed_requests", sentence)

    def unanswered(
        self, connection: AskingClient, error: errors.MalformedMessage | errors.NoAnswerWanted
    ) -> None:
        """A request gets no answer, and its connection is being closed."""
        if isinstance(error, errors.MalformedMessage):
            self.malformed(connection, error)

    def out_of_means(self, connection: AskingClient, error: Exception) -> None:
        """Log that memory or descriptors have run out; the connection is being closed."""
        sentence = f"closing the connection from {connection.client_host}: {error}"
        self._counters.say(logging.ERROR, "requests_out_of_means", sentence)

    async def answer(
        self, connection: AskingClient, frame: bytes, give_back: Callable[[], None] = nothing
    ) -> Sequence[Chunk]:
        """The response frame for a request frame, in chunks; empty without a response (acks=0).
        ``give_back`` as in :class:`RequestContext`.

        Raises:
            MalformedMessage: the request is malformed or not served here; the caller must close
                the connection.
            NoAnswerWanted: the caller must close the connection.
        """
        header = parse_request_header(frame)
        served = API_TABLE.get(header.api_key)
        if served is None or header.version not in served.versions:
            return self._unsupported(header, served)
        if len(frame) > served.request_bytes_max:
            check_length(header.api_key, header.version, len(frame))
        started = self._now_s()
        if header.api_key in CARRIES_ACKNOWLEDGEMENTS:
            try:
                check_acknowledges(self._parts, connection.access, frame, header.body)
            except (errors.InvalidRequest, errors.GroupAuthorizationFailed) as error:
                self._trouble(served, error)
                response = served.failure(served.api.request(), error)
                return response_frame(served.api, header.version, header.correlation_id, response)
        request = decode(served.api.request, header.version, frame, header.body)
        size = len(frame)
        del frame  # records are views of the frame; any other request is kept only decoded
        if size > REQUEST_ARRAY_MAX:
            _check_arrays(served, request)
        context = RequestContext(
            version=header.version,
            client_id=header.client_id or "",
            client_host=connection.client_host,
            connection=connection,
            access=connection.access,
            advertised=connection.endpoint.advertised,
            answer_bytes_max=connection.answer_bytes_max,
            give_back=give_back,
        )
        quotas = self._parts.quotas

        def encode(response: Any) -> Sequence[Chunk]:
            if response is None:
                return []
            return response_frame(served.api, header.version, header.correlation_id, response)

        if quotas.active:
            key = header.api_key
            within = WithinQuotas(quotas, key, size, context, self._now_s, started)
            work = self._handle(served, request, within.context)
            frames = await within.answer(connection, work, encode)
        else:
            frames = encode(await self._handle(served, request, context))
        meter = self._parts.meters.request(served.api.name)
        meter.request_bytes += size
        meter.response_bytes += sum(map(len, frames))
        meter.seconds.observe(self._now_s() - started)
        return frames

    async def answer_node(self, api_key: int, version: int, body: bytes) -> bytes:
        """The body of the answer to a request of another node of the fleet, which may do all.

        Raises:
            MalformedMessage: the request is malformed or not served here.
        """
        served = API_TABLE.get(api_key)
        if served is None or version not in served.versions:
            raise errors.MalformedMessage(f"API key {api_key} v{version} is not served here")
        request = decode(served.api.request, version, body)
        context = RequestContext(
            version=version,
            client_id=NODE,
            client_host="",
            connection=NODE,
            access=Access(),
            advertised=("", 0),
            from_node=True,
        )
        try:
            response = await served.handler(self._parts, request, context)
        except errors.KafkaError as error:
            self._trouble(served, error)
            response = served.failure(request, error)
        return encode_bytes(response, version)

    async def _handle(self, served: ServedApi, request: Any, context: RequestContext) -> Any:
        try:
            if served.api.key in NEEDS_SHARE_VERSION and not self._parts.share_version:
                raise errors.UnsupportedVersion
            REQUEST.set(served.api.name)
            passing = self._parts.passing
            if passing is not None and passing.passes(served.api):

                def here(changed: Any) -> Awaitable[Any]:
                    return served.handler(self._parts, changed, context)

                return await passing.answer(served.api, request, context, here)
            return await served.handler(self._parts, request, context)
        except errors.KafkaError as error:
            self._trouble(served, error)
            return _failure(served, request, error)
        except (errors.MalformedMessage, errors.NoAnswerWanted):
            raise
        except Exception:  # noqa: BLE001  logged with its traceback, and answered
            name, sentence = served.api.name, f"{served.api.name} failed"
            self._counters.say(logging.ERROR, "handler_failures", sentence, name, traceback=True)
            return _failure(served, request, errors.UnknownServerError())

    def _trouble(self, served: ServedApi, error: errors.KafkaError) -> None:
        self._counters.trouble("request_errors", f"{served.api.name} {error.name}", str(error))

    def _unsupported(self, header: RequestHeader, served: ServedApi | None) -> Sequence[Chunk]:
        """Answer a too new ApiVersions request at v0 with our versions (KIP-511); raise
        MalformedMessage for every other API, which closes the connection."""
        if header.api_key != API_VERSIONS.key:
            name = served.api.name if served else f"API key {header.api_key}"
            raise errors.MalformedMessage(f"{name} version {header.version} is not served here")
        response = ApiVersionsResponse(
            error_code=errors.UnsupportedVersion.code, api_keys=served_apis()
        )
        return response_frame(API_VERSIONS, 0, header.correlation_id, response)


def _failure(served: ServedApi, request: Any, error: errors.KafkaError) -> Any:
    """The answer to a request that has failed.

    Raises:
        NoAnswerWanted: its sender wants none.
    """
    response = served.failure(request, error)
    if response is None:
        raise errors.NoAnswerWanted
    return response


def _check_arrays(served: ServedApi, request: Any) -> None:
    """Refuse a request with a very long array, before its handler goes through it."""
    for field in fields(request):
        value = getattr(request, field.name)
        if isinstance(value, list) and len(value) > REQUEST_ARRAY_MAX:
            raise errors.MalformedMessage(
                f"a {served.api.name} request with {len(value)} {field.name}; "
                f"the limit is {REQUEST_ARRAY_MAX}"
            )
