"""Attacks on the secured listeners of `sharegroup serve`: what is wrong is refused, what is slow is
closed, a well-behaved client works on beside it, and afterwards the broker serves as before.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import shutil
import ssl
import subprocess
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sharegroup.broker.network.api_table import API_TABLE
from sharegroup.model.limits import OUT_OF_ORDER_BYTES_MAX
from sharegroup.wire import apis
from sharegroup.wire.framing import request_frame
from sharegroup.wire.messages.describe_groups import DescribeGroupsRequest
from sharegroup.wire.messages.metadata import MetadataRequest
from sharegroup.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.broker.authentication.raw_client import RawClient
from tests.broker.hostile import Maker
from tests.secured.cells import PASSWORD, USER, Credentials
from tests.secured.hostile.beside import Neighbour, neighbour
from tests.secured.hostile.jwks_server import JwksServer
from tests.secured.hostile.orders import ILLEGAL_STATE, ORDERS, WRONG, chosen
from tests.secured.hostile.peers import ATTACKER, Crowd, all_closed, attacker
from tests.secured.hostile.scram import BAD_FINAL, BAD_FIRST, NONCE, Seen, seen
from tests.secured.hostile.target import Target
from tests.secured.hostile.tokens import bad_messages, message, of_another_key
from tests.servers.process import HOST

logger = logging.getLogger(__name__)

pytestmark = pytest.mark.process

CROWD = 5_000
DESCRIPTORS_BESIDE = 500
MEMORY_MIB = 400
"""Thousands of half-made TLS connections cost some 40 KiB each."""
LENGTH_BYTES = 4
"""What comes before a frame."""
TLS_HELLO = bytes.fromhex("1603010200010001fc0303")
"""How a ClientHello begins."""
LONGEST_HELLO = bytes.fromhex("1603014000 01003ffc 0303") + bytes((1 << 14) - 6)
"""A record as long as TLS allows, with one ClientHello."""


@pytest.fixture(scope="module")
def credentials(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    return Credentials(tmp_path_factory.mktemp("credentials"))


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory, credentials: Credentials) -> Iterator[Target]:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with Target(tmp_path_factory.mktemp("target"), credentials) as target:
        target.prepare_users()
        yield target


def attacked(target: Target, attack: Callable[[], Coroutine[Any, Any, None]]) -> Neighbour:
    """Attack while the neighbour works; it must not fail, and the broker must live."""
    with neighbour(target.at("SASL_PLAINTEXT")) as found:
        asyncio.run(attack())
    logger.info("%s: %s; %.0f MiB", attack.__qualname__, found, target.memory_mib)
    assert found.times.failures == []
    assert found.times.requests
    assert target.memory_mib < MEMORY_MIB
    target.serves_as_before()
    return found


def crowd_size() -> int:
    """As many as this process and the broker have descriptors for."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(CROWD, soft - DESCRIPTORS_BESIDE)


CROWDS = (("SASL_PLAINTEXT", b""), ("SASL_SSL", b""), ("SSL", TLS_HELLO))
"""Silent ones; silent ones that should begin TLS; and such as begin it and stop."""


def test_thousands_that_do_not_authenticate(target: Target) -> None:
    async def attack() -> None:
        async with Crowd() as crowd:
            for listener, sent in CROWDS:
                await crowd.join(target.at(listener), crowd_size() // len(CROWDS), sent)
            assert await all_closed(crowd.clients)

    attacked(target, attack)
    assert target.metric("sharegroup_connections_unauthenticated") == 0


RAW_HANDSHAKE = b"".join(
    request_frame(apis.SASL_HANDSHAKE, 0, 1, "", SaslHandshakeRequest("PLAIN"))
)
"""SaslHandshake version 0: a token without a header comes next."""


@pytest.mark.parametrize("before", [b"", RAW_HANDSHAKE], ids=["requests", "tokens"])
def test_requests_and_tokens_that_never_end(target: Target, before: bytes) -> None:
    begun = before + (500_000).to_bytes(4, "big") + bytes.fromhex("00240002") + bytes(100_000)
    put_out = target.metric("sharegroup_connections_refused", "unauthenticated requests")

    async def attack() -> None:
        async with Crowd() as crowd:
            await crowd.join(target.at("SASL_PLAINTEXT"), 500, begun)
            assert await all_closed(crowd.clients)

    attacked(target, attack)
    assert target.metric("sharegroup_connections_refused", "unauthenticated requests") > put_out


def test_slow_handshakes(target: Target, credentials: Credentials) -> None:
    hellos = [client_hello(credentials, version) for version in ("TLSv1_2", "TLSv1_3")]

    async def dribble(crowd: Crowd) -> None:
        """A byte over each connection for each answer that another client gets, until the broker
        has closed them all."""
        closed = asyncio.create_task(all_closed(crowd.clients))
        async with attacker(target.at("PLAINTEXT")) as other:
            for byte in LONGEST_HELLO:
                for client in crowd.clients:
                    client.writer.write(bytes([byte]))
                await other.metadata()
                if closed.done():
                    break
            else:
                raise AssertionError("each byte gives it more time")
        assert await closed

    async def stop_half_way(hello: bytes) -> None:
        async with attacker(target.at("SSL")) as client:
            client.writer.write(hello)
            assert await client.reader.read(1), "the broker's half of it"
            assert await all_closed([client])

    async def attack() -> None:
        async with Crowd() as crowd:
            await crowd.join(target.at("SSL"), 20)
            await asyncio.gather(dribble(crowd), *map(stop_half_way, hellos * 25))

    late = target.metric("sharegroup_tls_handshake_failures", "in time")
    attacked(target, attack)
    assert target.metric("sharegroup_tls_handshake_failures", "in time") >= late + 70


def tls_context(credentials: Credentials, version: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(credentials.authority_file))
    context.maximum_version = ssl.TLSVersion[version]
    return context


def client_hello(credentials: Credentials, version: str) -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = tls_context(credentials, version).wrap_bio(incoming, outgoing, server_hostname=HOST)
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def test_floods_of_handshakes(target: Target, credentials: Credentials) -> None:
    at, context = target.at("SASL_SSL"), tls_context(credentials, "TLSv1_3")

    async def one_after_the_other(stop: asyncio.Event) -> int:
        made = 0
        while not stop.is_set():
            async with attacker(at, context, source=ATTACKER):
                made += 1
        return made

    async def attack() -> None:
        stop = asyncio.Event()
        flood = [asyncio.create_task(one_after_the_other(stop)) for _ in range(20)]
        for _ in range(10):  # from other addresses
            async with attacker(at, context) as client:
                assert not (await client.plain(USER, PASSWORD)).error_code
        stop.set()
        assert all(await asyncio.gather(*flood))

    attacked(target, attack)


NOISE = {
    "HTTP": b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
    "TLS": TLS_HELLO + bytes(600),
    "zeros": bytes(10_000),
    "ones": b"\xff" * 10_000,
    "two gigabytes": (2**31 - 1).to_bytes(4, "big") + bytes.fromhex("00110001"),
    "minus one": b"\xff\xff\xff\xff",
    "a hundred megabytes": (100 << 20).to_bytes(4, "big") + bytes.fromhex("00240002"),
    "a byte too many": (524_289).to_bytes(4, "big") + bytes.fromhex("00240002"),
    "an empty request": bytes(4),
}


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SSL", "SASL_SSL"])
def test_bytes_that_are_no_request(target: Target, listener: str) -> None:
    async def send(noise: bytes) -> None:
        async with attacker(target.at(listener)) as client:
            client.writer.write(noise)
            assert await all_closed([client])

    async def attack() -> None:
        tls = listener != "SASL_PLAINTEXT"
        noises = [noise for name, noise in NOISE.items() if not (tls and name == "TLS")]
        await asyncio.gather(*(send(noise) for noise in noises * 10))

    attacked(target, attack)


def test_frames_over_tls_that_are_too_long(target: Target, credentials: Credentials) -> None:
    context = tls_context(credentials, "TLSv1_3")

    async def attack() -> None:
        for name in ("two gigabytes", "a hundred megabytes", "a byte too many"):
            async with attacker(target.at("SASL_SSL"), context) as client:
                client.writer.write(NOISE[name])
                assert await all_closed([client])

    attacked(target, attack)


def test_renegotiation_is_refused(target: Target, credentials: Credentials) -> None:
    """By OpenSSL's own client, since Python has no word for it: R is its command."""
    if shutil.which("openssl") is None:
        return  # test_tls.py looks at the option
    done = subprocess.run(
        [
            *("openssl", "s_client", "-connect", target.at("SSL"), "-tls1_2"),
            *("-CAfile", str(credentials.authority_file)),
        ],
        input="R\n" * 3,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "RENEGOTIATING" in done.stdout + done.stderr
    assert "no renegotiation" in done.stdout + done.stderr
    assert done.returncode
    target.serves_as_before()


def test_requests_in_the_wrong_order(target: Target) -> None:
    async def one(order: Callable[[RawClient], Awaitable[None]]) -> None:
        async with attacker(target.at("SASL_PLAINTEXT")) as client:
            await order(client)
            assert await all_closed([client])

    async def attack() -> None:
        await asyncio.gather(*map(one, ORDERS * 3))

    attacked(target, attack)


def test_every_request_in_the_middle_of_an_exchange(target: Target) -> None:
    async def one(frame: bytes) -> None:
        async with attacker(target.at("SASL_PLAINTEXT")) as client:
            await chosen(client, "SCRAM-SHA-256")
            client.writer.write(frame)
            assert await all_closed([client])

    async def attack() -> None:
        maker = Maker("exchange", ())
        served = (each for each in API_TABLE.values() if each.api is not apis.SASL_AUTHENTICATE)
        for each in served:
            frames = maker.frames(each.api, each.versions.last, 2)
            await asyncio.gather(*(one(frame) for frame in frames))

    attacked(target, attack)


def test_a_long_request_in_the_middle_of_an_exchange_gets_no_answer(target: Target) -> None:
    """Its answer would have an error for each of its parts."""

    async def one(group_count: int) -> list[Any] | None:
        api, version = apis.DESCRIBE_GROUPS, 5
        async with attacker(target.at("SASL_PLAINTEXT")) as client:
            await chosen(client, "SCRAM-SHA-256")
            client.send(api, version, DescribeGroupsRequest([""] * group_count))
            answer = None if group_count > most else await client.receive(api, version)
            assert await client.is_closed()
            return None if answer is None else [each.error_code for each in answer.groups]

    some = 1_000
    chunks = request_frame(apis.DESCRIBE_GROUPS, 5, 1, "raw", DescribeGroupsRequest([""] * some))
    most = some + OUT_OF_ORDER_BYTES_MAX + LENGTH_BYTES - sum(map(len, chunks))

    async def attack() -> None:
        assert await one(most) == [ILLEGAL_STATE] * most
        assert await one(most + 1) is None
        assert await asyncio.gather(*(one(500_000) for _ in range(20))) == [None] * 20

    attacked(target, attack)


async def scram_first(client: RawClient, bare: str = f"n={USER},r={NONCE}") -> Seen:
    await chosen(client, "SCRAM-SHA-256")
    answer = await client.authenticate(f"n,,{bare}".encode())
    assert not answer.error_code, answer.error_message
    return seen(bare, bytes(answer.auth_bytes))


async def is_refused(client: RawClient, attempt: bytes) -> bool:
    """With Kafka's sentence for SCRAM, and the connection is closed."""
    answer = await client.authenticate(attempt)
    assert not answer.auth_bytes
    return answer.error_code == WRONG and await all_closed([client])


async def is_refused_silently(client: RawClient, attempt: bytes) -> bool:
    """By tokens without a header."""
    client.send_token(attempt)
    return await client.is_closed()


def test_scram_that_must_not_succeed(target: Target) -> None:
    at = target.at("SASL_PLAINTEXT")

    async def bad_first(text: str) -> None:
        async with attacker(at) as client:
            await chosen(client, "SCRAM-SHA-256")
            assert await is_refused(client, text.encode())

    async def bad_final(make: Callable[[Seen], bytes]) -> None:
        async with attacker(at) as client:
            assert await is_refused(client, make(await scram_first(client)))

    async def replayed() -> None:
        """What was right once, over another connection, and with the same nonce."""
        async with attacker(at) as one:
            known = await scram_first(one)
            final = known.final()
            assert not (await one.authenticate(final)).error_code
            assert (await one.authenticate(final)).error_code == ILLEGAL_STATE, "after the end"
            assert (await one.ask(apis.METADATA, 12, MetadataRequest(None))).cluster_id
        async with attacker(at) as another:
            assert (await scram_first(another)).first.nonce != known.first.nonce
            assert await is_refused(another, final)

    async def attack() -> None:
        await replayed()
        await asyncio.gather(*map(bad_first, BAD_FIRST.values()))
        await asyncio.gather(*map(bad_final, BAD_FINAL.values()))

    attacked(target, attack)


def test_tokens_that_must_not_be_accepted(target: Target, credentials: Credentials) -> None:
    at = target.at("SASL_PLAINTEXT")

    async def one(what: str, attempt: bytes) -> None:
        async with attacker(at) as client:
            await chosen(client, "OAUTHBEARER")
            answer = await client.authenticate(attempt)
            if not answer.error_code:
                assert b"invalid_token" in answer.auth_bytes, what
                answer = await client.authenticate(b"\x01")
            assert answer.error_code == WRONG, what
            assert await all_closed([client])

    async def attack() -> None:
        await asyncio.gather(*(one(*each) for each in bad_messages(credentials)))
        async with attacker(at) as client:
            await chosen(client, "OAUTHBEARER")
            assert not (await client.authenticate(message(credentials.token()))).error_code

    attacked(target, attack)


@pytest.mark.parametrize("version", [0, 1])
def test_plain_with_odd_names(target: Target, version: int) -> None:
    at = target.at("SASL_PLAINTEXT")
    forms = [b"", b"\0", b"\0\0", b"\0\0\0", b"\0" * 100_000, b"\xff\0\xff\0\xff", b"alice"]
    forms += [f"root\0{USER}\0{PASSWORD}".encode(), f"\0{USER}\0{PASSWORD}\0".encode()]
    forms += [b"\0" + b"u" * 400_000 + b"\0p", b"\0u\0" + b"p" * 400_000, b"\0\r\n\x1b[2J\0x"]

    async def one(form: bytes) -> None:
        async with attacker(at) as client:
            await chosen(client, "PLAIN", version)
            assert await (is_refused if version else is_refused_silently)(client, form)

    async def attack() -> None:
        await asyncio.gather(*map(one, forms))

    attacked(target, attack)
    assert "\x1b" not in target.output()
    assert max(map(len, target.output().splitlines())) < 2_000


def test_tokens_with_unknown_keys(tmp_path: Path, credentials: Credentials) -> None:
    """They do not make the broker fetch the keys each time, nor does a known key wait for it."""
    listener = "listener.name.sasl_plaintext.sasl.oauthbearer.jwks.endpoint.url"

    async def attack(at: str, keys: JwksServer) -> None:
        async def one(token: str) -> bool:
            async with attacker(at) as client:
                await chosen(client, "OAUTHBEARER")
                answer = await client.authenticate(message(token))
                return not answer.error_code and not answer.auth_bytes

        assert await one(credentials.token())
        unknown = [one(of_another_key(f"key {number}")) for number in range(100)]
        flood = asyncio.gather(*unknown, return_exceptions=True)
        for _ in range(20):
            assert await one(credentials.token())
        assert not any(each is True for each in await flood)
        assert keys.fetched <= 2

    with (
        JwksServer(credentials.jwks_file) as keys,
        Target(tmp_path, credentials, f"{listener}={keys.url}") as target,
    ):
        asyncio.run(attack(target.at("SASL_PLAINTEXT"), keys))
        assert "Traceback" not in target.output()


def test_scram_by_tokens_that_must_not_succeed(target: Target) -> None:
    at, bare = target.at("SASL_PLAINTEXT"), f"n={USER},r={NONCE}"

    async def first(client: RawClient) -> Seen:
        await chosen(client, "SCRAM-SHA-256", 0)
        client.send_token(f"n,,{bare}".encode())
        return seen(bare, await client.receive_token())

    async def bad_first(text: str) -> None:
        async with attacker(at) as client:
            await chosen(client, "SCRAM-SHA-256", 0)
            assert await is_refused_silently(client, text.encode())

    async def bad_final(make: Callable[[Seen], bytes]) -> None:
        async with attacker(at) as client:
            assert await is_refused_silently(client, make(await first(client)))

    async def attack() -> None:
        async with attacker(at) as client:
            client.send_token((await first(client)).final())
            assert await client.receive_token()
            assert (await client.metadata()).cluster_id
        await asyncio.gather(*map(bad_first, BAD_FIRST.values()))
        await asyncio.gather(*map(bad_final, BAD_FINAL.values()))

    attacked(target, attack)


GUESSES = 200


@pytest.mark.parametrize("version", [0, 1])
def test_brute_force(target: Target, version: int) -> None:
    """Guesses over many connections at once, whose clients do not wait for the answers."""
    at = target.at("SASL_PLAINTEXT")
    looked_at = target.metric("sharegroup_authentication_failures", "PLAIN")

    async def guess(number: int, done: list[int]) -> None:
        with suppress(asyncio.IncompleteReadError, OSError):
            async with attacker(at, source=ATTACKER) as client:
                await chosen(client, "PLAIN", version)
                attempt = f"\0{USER}\0guess {number}".encode()
                if version:
                    await client.authenticate(attempt)
                    done.append(number)
                else:  # it cannot tell a refusal from its time being over
                    await is_refused_silently(client, attempt)

    async def attack() -> None:
        done: list[int] = []
        await asyncio.gather(*(guess(number, done) for number in range(GUESSES)))
        assert len(done) < GUESSES // 10, "the others were closed, and none was looked at"
        async with attacker(at) as client:
            assert not (await client.plain(USER, PASSWORD)).error_code

    attacked(target, attack)
    tried = target.metric("sharegroup_authentication_failures", "PLAIN") - looked_at
    assert 0 < tried < GUESSES // 10
