"""Requests of authentication in an order that is not allowed. After each the broker closes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from sharegroup.wire import apis
from sharegroup.wire.messages.api_versions import ApiVersionsRequest
from sharegroup.wire.messages.metadata import MetadataRequest
from sharegroup.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from tests.broker.authentication.raw_client import RawClient
from tests.secured.cells import MECHANISMS, PASSWORD, USER
from tests.secured.hostile.scram import NONCE

UNSUPPORTED_MECHANISM = 33
ILLEGAL_STATE = 34
WRONG = 58


async def chosen(client: RawClient, mechanism: str, version: int = 1) -> None:
    assert not (await client.handshake(mechanism, version)).error_code


async def before_the_handshake(client: RawClient) -> None:
    plain = f"\0{USER}\0{PASSWORD}".encode()
    client.send(apis.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(plain))


async def another_request_before(client: RawClient) -> None:
    client.send(apis.METADATA, 12, MetadataRequest(None))


async def another_request_in_the_middle(client: RawClient) -> None:
    await chosen(client, "PLAIN")
    answer = await client.ask(apis.LIST_GROUPS, 4, apis.LIST_GROUPS.request())
    assert answer.error_code == ILLEGAL_STATE


async def versions_again_and_again(client: RawClient) -> None:
    for _ in range(100):
        client.send(apis.API_VERSIONS, 3, ApiVersionsRequest("raw", "1"))


def then(first: str, second: str) -> Callable[[RawClient], Awaitable[None]]:
    async def twice(client: RawClient) -> None:
        await chosen(client, first)
        assert (await client.handshake(second)).error_code == ILLEGAL_STATE

    return twice


def speaking(mechanism: str, message: str) -> Callable[[RawClient], Awaitable[None]]:
    async def speak(client: RawClient) -> None:
        await chosen(client, mechanism)
        assert (await client.authenticate(message.encode())).error_code == WRONG

    return speak


def not_offered(mechanism: str) -> Callable[[RawClient], Awaitable[None]]:
    async def choose(client: RawClient) -> None:
        answer = await client.handshake(mechanism)
        assert answer.error_code == UNSUPPORTED_MECHANISM
        assert tuple(answer.mechanisms) == MECHANISMS

    return choose


def unknown_request(key: int) -> Callable[[RawClient], Awaitable[None]]:
    async def ask(client: RawClient) -> None:
        client.writer.write((20).to_bytes(4, "big") + key.to_bytes(2, "big") + bytes(18))

    return ask


ORDERS: list[Callable[[RawClient], Awaitable[None]]] = [
    before_the_handshake,
    another_request_before,
    another_request_in_the_middle,
    versions_again_and_again,
    then("PLAIN", "PLAIN"),
    then("PLAIN", "SCRAM-SHA-256"),
    then("SCRAM-SHA-512", "PLAIN"),
    speaking("SCRAM-SHA-256", f"\0{USER}\0{PASSWORD}"),
    speaking("PLAIN", f"n,,n={USER},r={NONCE}"),
    speaking("SCRAM-SHA-512", f"n,,\x01auth=Bearer {PASSWORD}\x01\x01"),
    *map(not_offered, ("GSSAPI", "", "plain", "SCRAM-SHA-1", "SCRAM-SHA-256-PLUS", "x" * 30_000)),
    *map(unknown_request, (17, 18, 36, 93, 0x7FFF, 0x8000, 0xFFFF)),
]
