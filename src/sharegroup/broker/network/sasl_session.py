"""Finds out who the client of one SASL connection is: takes its requests until the client is known,
and again when it authenticates anew (KIP-368).

Until it is known, a client may send ApiVersions, then SaslHandshake, then SaslAuthenticate, one at
a time. Anything else closes the connection. After SaslHandshake version 0 the messages of the
exchange are frames of their own, without a request or an answer around them (KIP-43); a refusal
closes the connection without a word. Source: Kafka class SaslServerAuthenticator.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from enum import Enum, auto
from typing import Final, NamedTuple, TypeVar

from sharegroup.broker.authentication.exchange import ExchangeStep, LoginExchange
from sharegroup.broker.authentication.guessing import ClientLeft, Guessing
from sharegroup.broker.authentication.listener_security import ListenerSecurity
from sharegroup.broker.event_counters import Counters
from sharegroup.broker.network.api_table import API_TABLE
from sharegroup.broker.network.outgoing import Chunk
from sharegroup.model import errors
from sharegroup.model.environment import Clock
from sharegroup.model.limits import OUT_OF_ORDER_BYTES_MAX
from sharegroup.sasl.server import LoginRefused
from sharegroup.wire import apis
from sharegroup.wire.codec import decode
from sharegroup.wire.framing import (
    RequestHeader,
    bare_frame,
    parse_request_header,
    response_frame,
)
from sharegroup.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from sharegroup.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from sharegroup.wire.schema import Message

M = TypeVar("M", bound=Message)

AGAIN_MS: Final = 1000
"""How long a client must wait between two re-authentications, as in Kafka."""

VERSIONS_TOLD_MAX: Final = 3
"""How many ApiVersions requests of a client that is not known yet are answered; requests of an
unknown version do not count. Kafka answers one."""

_HANDSHAKE: Final = apis.SASL_HANDSHAKE.key.to_bytes(2, "big")


_Framing = Callable[[SaslAuthenticateResponse], Sequence[Chunk]]


class SaslAnswer(NamedTuple):
    """What to send, and whether to close afterwards."""

    chunks: Sequence[Chunk]
    close: bool = False


class _State(Enum):
    FIRST = auto()
    """ApiVersions or SaslHandshake may come."""
    EXCHANGE = auto()
    """SaslAuthenticate must come."""
    DONE = auto()
    FAILED = auto()


class _AnotherMechanism:
    """The exchange of a client that authenticates anew by another mechanism: it fails, with Kafka's
    words."""

    def __init__(self, wanted: str, before: str) -> None:
        self._told = (
            f"SASL mechanism '{wanted}' requested by client is not supported for "
            f"re-authentication of mechanism '{before}'"
        )

    async def evaluate(self, message: bytes) -> ExchangeStep:
        """Refuse."""
        raise LoginRefused("another mechanism than before", self._told)


class SaslSession:
    """The session of one connection. ``principal`` is the client's, once ``authenticated``.

    ``busy`` while a request of the authentication is being handled: the next request must wait.
    """

    def __init__(
        self,
        security: ListenerSecurity,
        guessing: Guessing,
        clock: Clock,
        counters: Counters,
    ) -> None:
        self._security = security
        self._guessing = guessing
        self._clock = clock
        self._counters = counters
        self._state = _State.FIRST
        self._mechanism = ""
        self._versions_told = 0
        self._raw = False
        self._exchange: LoginExchange | None = None
        self._expires_ms: int | None = None
        self._again_ms: int | None = None  # when the client last began to authenticate anew
        self.principal = ""
        self._claimed = ""  # the user that the client claims to be
        self.host = ""
        self.left: Callable[[], bool] = lambda: False
        """Whether the connection is gone."""
        self.busy = False

    @property
    def authenticated(self) -> bool:
        """Whether it is known who the client is."""
        return bool(self.principal)

    @property
    def is_deleted(self) -> bool:
        """Whether the user that the client is known as was deleted."""
        user = self.principal.partition(":")[2]
        return self.authenticated and not self._security.knows(user, self._mechanism)

    @property
    def settled(self) -> bool:
        """Whether no authentication is in progress, neither the first nor a later one."""
        return self._state is _State.DONE

    @property
    def wants_raw_token(self) -> bool:
        """Whether the next frame is a SASL token without a request around it."""
        return self._raw and self._state is _State.EXCHANGE

    def turn(self, user: str) -> AbstractAsyncContextManager[None]:
        """Wait until it may be checked whether the client is ``user``."""
        self._claimed = user
        return self._guessing.turn(self.host, user, self.left)

    def takes(self, frame: bytes) -> bool:
        """Whether the session must handle a request: any request before the client is known, then
        requests that authenticate it anew, and any request after the authentication has expired."""
        if self._state is not _State.DONE:
            return True
        if self._expires_ms is None:
            return False
        now_ms = self._clock.monotonic_ms()
        if frame[:2] == _HANDSHAKE:
            return self._again_ms is None or now_ms - self._again_ms >= AGAIN_MS
        return now_ms >= self._expires_ms

    async def answer(
        self, frame: bytes, api_versions: Callable[[], Awaitable[Sequence[Chunk]]]
    ) -> SaslAnswer:
        """Handle a request that :meth:`takes` has named.

        Args:
            api_versions: answers an ApiVersions request.

        Raises:
            MalformedMessage: it cannot be read; the caller must close the connection.
        """
        if self.wants_raw_token:
            return await self._evaluated(frame, _raw_token)
        header = parse_request_header(frame)
        if self._state is _State.DONE:
            if header.api_key != apis.SASL_HANDSHAKE.key:
                return self._expired()
            self._again_ms = self._clock.monotonic_ms()
            self._state = _State.FIRST
        if self._state is _State.FAILED:
            return SaslAnswer([], close=True)
        if self._state is _State.EXCHANGE:
            if header.api_key != apis.SASL_AUTHENTICATE.key:
                return await self._out_of_order(frame, header)
            return await self._authenticate(_read(SaslAuthenticateRequest, header, frame), header)
        return await self._opening(frame, header, api_versions)

    async def _opening(
        self,
        frame: bytes,
        header: RequestHeader,
        api_versions: Callable[[], Awaitable[Sequence[Chunk]]],
    ) -> SaslAnswer:
        """The answer to a request before the exchange."""
        if header.api_key == apis.API_VERSIONS.key and not self.authenticated:
            if header.version in API_TABLE[header.api_key].versions:
                self._versions_told += 1
            if self._versions_told > VERSIONS_TOLD_MAX:
                return await self._failed([], "ApiVersions again and again")
            return SaslAnswer(await api_versions())
        if header.api_key != apis.SASL_HANDSHAKE.key:
            return await self._failed([], f"{_name(header)} before it has authenticated")
        return await self._handshake(_read(SaslHandshakeRequest, header, frame), header)

    async def _handshake(self, request: SaslHandshakeRequest, header: RequestHeader) -> SaslAnswer:
        offered = list(self._security.mechanisms)

        def answer(error: errors.KafkaError | None) -> Sequence[Chunk]:
            code = error.code if error else 0
            return _framed(apis.SASL_HANDSHAKE, header, SaslHandshakeResponse(code, offered))

        if request.mechanism not in offered:
            reason = "a mechanism that is not offered"
            return await self._failed(answer(errors.UnsupportedSaslMechanism()), reason)
        if self.authenticated and request.mechanism != self._mechanism:
            self._exchange = _AnotherMechanism(request.mechanism, self._mechanism)
        else:
            self._mechanism = request.mechanism
            self._claimed = ""
            self._exchange = self._security.begin(request.mechanism, self)
        self._raw = header.version == 0
        self._state = _State.EXCHANGE
        return SaslAnswer(answer(None))

    async def _authenticate(
        self, request: SaslAuthenticateRequest, header: RequestHeader
    ) -> SaslAnswer:
        def answer(response: SaslAuthenticateResponse) -> Sequence[Chunk]:
            if header.version < 1:
                response.session_lifetime_ms = 0
            return _framed(apis.SASL_AUTHENTICATE, header, response)

        return await self._evaluated(bytes(request.auth_bytes), answer)

    async def _evaluated(self, message: bytes, framed: _Framing) -> SaslAnswer:
        """The answer to the client's next message in the exchange."""
        assert self._exchange is not None
        try:
            step = await self._exchange.evaluate(message)
            lifetime_ms = self._complete(step) if step.user is not None else 0
        except ClientLeft:
            self._state = _State.FAILED
            return SaslAnswer([], close=True)
        except LoginRefused as error:
            response = SaslAuthenticateResponse(
                errors.SaslAuthenticationFailed.code, error.told or self._wrong_credentials()
            )
            return await self._failed(framed(response), str(error))
        except Exception as error:  # noqa: BLE001  its text could have a secret
            self._counters.say(
                logging.ERROR,
                "handler_failures",
                f"SASL: {type(error).__name__}",
                "SaslAuthenticate",
            )
            response = SaslAuthenticateResponse(
                errors.SaslAuthenticationFailed.code, self._wrong_credentials()
            )
            return await self._failed(framed(response), "an error of the broker")
        response = SaslAuthenticateResponse(
            error_message="", auth_bytes=step.answer, session_lifetime_ms=lifetime_ms
        )
        return SaslAnswer(framed(response))

    def _complete(self, step: ExchangeStep) -> int:
        """The exchange has succeeded: the client is known. Returns for how long; 0: for ever."""
        principal = f"User:{step.user}"
        if not self._security.knows(step.user or "", self._mechanism):
            raise LoginRefused("the user was deleted meanwhile")
        if self.principal and principal != self.principal:
            told = (
                "Cannot change principals during re-authentication from "
                f"{self.principal.replace(':', '.', 1)}: {principal.replace(':', '.', 1)}"
            )
            raise LoginRefused("another principal than before", told)
        lifetimes = []
        if session_ms := self._security.session_ms(self._mechanism):
            lifetimes.append(session_ms)
        if step.expires_ms is not None:
            lifetimes.append(max(1, step.expires_ms - self._clock.wall_ms()))
        now_ms = self._clock.monotonic_ms()
        self._expires_ms = now_ms + min(lifetimes) if lifetimes else None
        self.principal = principal
        self._exchange = None
        self._state = _State.DONE
        self._guessing.succeeded(self.host, self._claimed)
        self._counters.add("authentications", self._mechanism)
        return min(lifetimes) if lifetimes else 0

    async def _failed(self, chunks: Sequence[Chunk], reason: str) -> SaslAnswer:
        """Answer late, then close, so that guessing passwords is slow."""
        self._state = _State.FAILED
        self._exchange = None
        mechanism = self._mechanism or "none"
        sentence = (
            f"a client at {self.host} did not authenticate to the listener {self._security.name} "
            f"({mechanism}): {reason}"
        )
        self._counters.say(logging.WARNING, "authentication_failures", sentence, mechanism)
        delay_ms = self._guessing.failed(self.host, self._claimed)
        if delay_ms:
            await asyncio.sleep(delay_ms / 1000)
        return SaslAnswer(chunks, close=True)

    async def _out_of_order(self, frame: bytes, header: RequestHeader) -> SaslAnswer:
        """Refuse a request that comes in the middle of an exchange, by its own API's response. A
        long one gets no response: an error for each of its parts would cost a stranger nothing, and
        the broker seconds."""
        served = API_TABLE.get(header.api_key)
        chunks: Sequence[Chunk] = []
        is_short = len(frame) <= OUT_OF_ORDER_BYTES_MAX
        if is_short and served is not None and header.version in served.versions:
            request = decode(served.api.request, header.version, frame, header.body)
            try:
                response = served.failure(request, errors.IllegalSaslState())
            except errors.KafkaError:
                response = None  # the API's response cannot carry an error
            if response is not None:
                chunks = _framed(served.api, header, response)
        return await self._failed(chunks, f"{_name(header)} in the middle of the exchange")

    def _expired(self) -> SaslAnswer:
        sentence = f"closing the connection from {self.host}: it has not authenticated again"
        self._counters.say(logging.INFO, "authentications_expired", sentence)
        return SaslAnswer([], close=True)

    def _wrong_credentials(self) -> str:
        during = "re-authentication" if self.authenticated else "authentication"
        return (
            f"Authentication failed during {during} due to invalid credentials with SASL "
            f"mechanism {self._mechanism}"
        )


def _read(kind: type[M], header: RequestHeader, frame: bytes) -> M:
    served = API_TABLE[header.api_key]
    if header.version not in served.versions:
        raise errors.MalformedMessage(
            f"{served.api.name} version {header.version} is not served here"
        )
    return decode(kind, header.version, frame, header.body)


def _raw_token(response: SaslAuthenticateResponse) -> Sequence[Chunk]:
    """The answer to a token without a header; a refusal has no answer."""
    if response.error_code:
        return []
    return [bare_frame(bytes(response.auth_bytes))]


def _framed(api: apis.Api, header: RequestHeader, response: Message) -> Sequence[Chunk]:
    return response_frame(api, header.version, header.correlation_id, response)


def _name(header: RequestHeader) -> str:
    served = API_TABLE.get(header.api_key)
    return served.api.name if served else f"API key {header.api_key}"
