"""Conversations around SaslHandshake version 0, after which tokens have no header. Each gives what
a client sees, in words, so that two brokers can be compared."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sharegroup.sasl.client import Login, OAuthBearerLogin, PlainLogin, ScramLogin
from sharegroup.sasl.scram_keys import ScramMechanism
from sharegroup.wire import apis
from sharegroup.wire.messages.api_versions import ApiVersionsRequest
from sharegroup.wire.messages.metadata import MetadataRequest
from sharegroup.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from sharegroup.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.broker.authentication.raw_client import RawClient, raw_client

RECEIVE_SIZE_MAX: Final = 524_288
"""Kafka's default of ``sasl.server.max.receive.size``, and ours."""
METADATA: Final = 12
AGAIN: Final = "AGAIN"
"""Conversations that authenticate anew have this name in front, and SCRAM alone."""
_SCRAM: Final = {name.sasl_name: name for name in ScramMechanism}


@dataclass(frozen=True, slots=True)
class Account:
    """Who logs in."""

    user: str
    password: str = field(repr=False)
    token: str = field(repr=False)

    def login(self, mechanism: str, *, wrong: bool = False) -> Login:
        """A new login; a wrong one has a wrong password or token."""
        more = "x" if wrong else ""
        if mechanism == "PLAIN":
            return PlainLogin(self.user, self.password + more)
        if mechanism == "OAUTHBEARER":
            return OAuthBearerLogin(self.token + more)
        return ScramLogin(_SCRAM[mechanism], self.user, self.password + more, "fyko+d2lbbFgONRv9q")


class Talk:
    """One client, and the words for what it has seen."""

    def __init__(self, client: RawClient, account: Account) -> None:
        self.client = client
        self.account = account
        self.seen: list[str] = []

    async def handshake(self, mechanism: str, version: int = 0) -> None:
        answer = await self.client.handshake(mechanism, version)
        self.seen.append(f"handshake {answer.error_code} {sorted(answer.mechanisms)}")

    async def log_in(self, mechanism: str, *, wrong: bool = False) -> None:
        login = self.account.login(mechanism, wrong=wrong)
        await self.handshake(mechanism)
        token = login.first()
        while not login.done:
            self.client.send_token(token)
            answer = await self.client.receive_token()
            empty_or = "token" if answer else "empty token"
            self.seen.append(empty_or if login.mechanism != "OAUTHBEARER" else answer.decode())
            token = login.next(answer)

    async def log_in_by_requests(self, mechanism: str) -> None:
        """As newer clients do."""
        login = self.account.login(mechanism)
        await self.handshake(mechanism, version=1)
        token = login.first()
        while not login.done:
            answer = await self.client.authenticate(token)
            self.seen.append(f"authenticated {answer.error_code} {answer.error_message}")
            token = login.next(bytes(answer.auth_bytes))

    async def metadata(self) -> None:
        answer = await self.client.metadata()
        self.seen.append(f"metadata of {len(answer.brokers)} brokers")


Conversation = Callable[[Talk], Coroutine[Any, Any, None]]


def _right(mechanism: str) -> Conversation:
    async def talk(talk: Talk) -> None:
        await talk.log_in(mechanism)
        await talk.metadata()

    return talk


def _wrong(mechanism: str) -> Conversation:
    async def talk(talk: Talk) -> None:
        await talk.log_in(mechanism, wrong=True)
        await talk.metadata()

    return talk


def _token(*tokens: bytes, mechanism: str = "PLAIN", version: int = 0) -> Conversation:
    """What is sent after a handshake; whatever comes is read."""

    async def talk(talk: Talk) -> None:
        await talk.handshake(mechanism, version)
        for token in tokens:
            talk.client.send_token(token)
            talk.seen.append(f"{len(await talk.client.receive_token())} bytes")

    return talk


def _bytes(sent: bytes, *, before: bool = False) -> Conversation:
    async def talk(talk: Talk) -> None:
        if before:
            await talk.handshake("PLAIN")
        talk.client.writer.write(sent)
        talk.seen.append(f"{len(await talk.client.receive_token())} bytes")

    return talk


async def _longest_token(talk: Talk) -> None:
    """At the edge: refused for what it says, once it is there."""
    await talk.handshake("PLAIN")
    talk.client.send_token(bytes(RECEIVE_SIZE_MAX))
    await talk.client.receive_token()


async def _versions_before(talk: Talk) -> None:
    answer = await talk.client.ask(apis.API_VERSIONS, 3, ApiVersionsRequest("raw", "1"))
    (told,) = (api for api in answer.api_keys if api.api_key == apis.SASL_HANDSHAKE.key)
    talk.seen.append(f"SaslHandshake {told.min_version} to {told.max_version}")
    await talk.log_in("PLAIN")
    await talk.metadata()


def _request_instead(api: apis.Api, version: int, request: Any) -> Conversation:
    """A request where a token should be."""

    async def talk(talk: Talk) -> None:
        await talk.handshake("PLAIN")
        talk.client.send(api, version, request)
        talk.seen.append(f"{len(await talk.client.receive_token())} bytes")

    return talk


async def _token_after(talk: Talk) -> None:
    await talk.log_in("PLAIN")
    talk.client.send_token(talk.account.login("PLAIN").first())
    await talk.client.receive_token()
    talk.seen.append("an answer")


async def _handshake_after(talk: Talk) -> None:
    await talk.log_in("PLAIN")
    await talk.handshake("PLAIN")
    await talk.metadata()


async def _all_at_once(talk: Talk) -> None:
    """Handshake, token and the first request in one packet."""
    transport = talk.client.writer.transport
    kept: list[bytes] = []
    write, transport.write = transport.write, kept.append  # type: ignore[method-assign]
    transport.writelines = kept.extend  # type: ignore[method-assign]
    talk.client.send(apis.SASL_HANDSHAKE, 0, SaslHandshakeRequest("PLAIN"))
    talk.client.send_token(talk.account.login("PLAIN").first())
    talk.client.send(apis.METADATA, METADATA, MetadataRequest(None))
    write(b"".join(kept))
    talk.seen.append(f"handshake {(await talk.client.receive(apis.SASL_HANDSHAKE, 0)).error_code}")
    talk.seen.append(f"token {await talk.client.receive_token()!r}")
    answer = await talk.client.receive(apis.METADATA, METADATA)
    talk.seen.append(f"metadata of {len(answer.brokers)} brokers")


async def _again(talk: Talk) -> None:
    await talk.log_in("SCRAM-SHA-256")
    await talk.metadata()
    await talk.log_in("SCRAM-SHA-256")
    await talk.metadata()


async def _again_wrong(talk: Talk) -> None:
    await talk.log_in("SCRAM-SHA-256")
    await talk.log_in("SCRAM-SHA-256", wrong=True)
    await talk.metadata()


async def _again_soon(talk: Talk) -> None:
    await _again(talk)
    await talk.handshake("SCRAM-SHA-256")
    await talk.metadata()


async def _again_by_another(talk: Talk) -> None:
    await talk.log_in("SCRAM-SHA-256")
    await talk.log_in("SCRAM-SHA-512")


async def _again_by_requests(talk: Talk) -> None:
    await talk.log_in("SCRAM-SHA-256")
    await talk.log_in_by_requests("SCRAM-SHA-256")
    await talk.metadata()


async def _requests_then_tokens(talk: Talk) -> None:
    await talk.log_in_by_requests("SCRAM-SHA-256")
    await talk.log_in("SCRAM-SHA-256")
    await talk.metadata()


async def _again_too_long(talk: Talk) -> None:
    await talk.log_in("SCRAM-SHA-256")
    await talk.handshake("SCRAM-SHA-256")
    talk.client.writer.write(struct.pack(">i", RECEIVE_SIZE_MAX + 1))
    await talk.client.receive_token()


MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")

CONVERSATIONS: Final[Mapping[str, Conversation]] = {
    **{f"{mechanism}": _right(mechanism) for mechanism in MECHANISMS},
    **{f"wrong {mechanism}": _wrong(mechanism) for mechanism in MECHANISMS},
    "another byte after a refused token": _token(
        b"n,,\x01auth=Bearer x.y.z\x01\x01", b"\x01", b"\x01", mechanism="OAUTHBEARER"
    ),
    "a mechanism that nobody has": _token(b"", mechanism="CRAM-MD5"),
    "GSSAPI": _token(b"\x60\x82", mechanism="GSSAPI"),
    "an empty token": _token(b""),
    "an empty token of SCRAM": _token(b"", mechanism="SCRAM-SHA-256"),
    "a token of another mechanism": _token(b"n,,n=alice,r=x"),
    "a token after a handshake of version 1": _token(b"\0alice\0secret", version=1),
    "the longest token": _longest_token,
    "a longer token": _bytes(struct.pack(">i", RECEIVE_SIZE_MAX + 1), before=True),
    "a negative length": _bytes(struct.pack(">i", -1), before=True),
    "a token without a handshake": _bytes(b"\0\0\0\x06\x60\x82\x02\x3c\x06\x09"),
    "a token of PLAIN without a handshake": _bytes(b"\0\0\0\x0d\0alice\0secret"),
    "ApiVersions before": _versions_before,
    "ApiVersions instead": _request_instead(apis.API_VERSIONS, 3, ApiVersionsRequest("raw", "1")),
    "a second handshake": _request_instead(apis.SASL_HANDSHAKE, 0, SaslHandshakeRequest("PLAIN")),
    "a second handshake of version 1": _request_instead(
        apis.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN")
    ),
    "SaslAuthenticate instead": _request_instead(
        apis.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(b"\0alice\0secret")
    ),
    "Metadata instead": _request_instead(apis.METADATA, METADATA, MetadataRequest(None)),
    "a token after it": _token_after,
    "a handshake after it": _handshake_after,
    "all at once": _all_at_once,
    f"{AGAIN} by tokens": _again,
    f"{AGAIN} with a wrong password": _again_wrong,
    f"{AGAIN} within a second": _again_soon,
    f"{AGAIN} by another mechanism": _again_by_another,
    f"{AGAIN} by requests": _again_by_requests,
    f"{AGAIN} by requests, then tokens": _requests_then_tokens,
    f"{AGAIN} with a longer token": _again_too_long,
}


async def seen(name: str, port: int, account: Account) -> list[str]:
    """What a client sees in one conversation."""
    async with asyncio.timeout(120), raw_client(port) as client:
        talk = Talk(client, account)
        try:
            await CONVERSATIONS[name](talk)
            talk.seen.append("open")
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            partial = isinstance(error, asyncio.IncompleteReadError) and error.partial
            talk.seen.append(f"closed after {partial!r}" if partial else "closed")
        return talk.seen
