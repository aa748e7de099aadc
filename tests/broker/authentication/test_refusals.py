"""What a refusal costs and says does not tell which users there are.

The work is counted, not timed: the broker runs on virtual time, alone, and every call that its code
makes while it refuses is counted.
"""

from __future__ import annotations

import asyncio
import gc
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from types import FrameType
from typing import Any

import pytest

import sharegroup
from sharegroup.broker.configs.broker import load
from sharegroup.broker.server import Broker
from sharegroup.model.limits import USERS_COMPARED_MAX
from sharegroup.sasl.password_hash import PasswordHash
from sharegroup.sasl.scram_keys import ScramMechanism
from sharegroup.sasl.scram_messages import to_base64
from sharegroup.sim import MemoryDisk, simulated_environment
from sharegroup.wire import apis
from sharegroup.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from sharegroup.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from sharegroup.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.broker.authentication.raw_client import RawClient, raw_client
from tests.broker.authentication.secured import HOST, plain_users
from tests.broker.by_hand import TIMEOUT_MS, connect
from tests.sim.test_broker_in_virtual_time import simulate

LISTENER = "SASL_PLAINTEXT"
PROOF_BYTES = {"SCRAM-SHA-256": 32, "SCRAM-SHA-512": 64}
MECHANISMS = ("PLAIN", *PROOF_BYTES)
UNKNOWN = "nobody"
KNOWN = {
    "infile": MECHANISMS,
    "plain-": ("PLAIN",),
    "sha256": ("SCRAM-SHA-256",),
    "sha512": ("SCRAM-SHA-512",),
}
"""Users of the file, by what they have a password for."""
CREATED = "stored"
"""Has SCRAM-SHA-256 by AlterUserScramCredentials; ``injaas`` is in the broker's settings."""
CLAIMED = (*KNOWN, CREATED, "injaas", UNKNOWN)
FEW, MANY = 2 * USERS_COMPARED_MAX, 10 * USERS_COMPARED_MAX
HERE = sharegroup.__path__[0]
CHEAP = PasswordHash(2, 1, 1, bytes(16), bytes(32))
"""Computed in no time. That real ones are the same work for all is counted in ``test_credentials``.
"""


@dataclass
class Refusal:
    """What a client sees of two wrong claims, one after the other, and what they cost."""

    answers: list[bytes] = field(default_factory=list)
    """As they came, but for nonces and salts: of these only the lengths."""
    seconds: list[float] = field(default_factory=list)
    """What each answer came after."""
    calls: Counter[str] = field(default_factory=Counter)

    def count(self, frame: FrameType, event: str, called: Any) -> None:
        """A function that profiles: counts what our code calls, and which parts of it."""
        code = frame.f_code
        back = frame.f_back
        ours = code.co_filename.startswith(HERE)
        if event == "c_call" and ours:
            self.calls[called.__qualname__] += 1
        elif event == "call" and (ours or (back and back.f_code.co_filename.startswith(HERE))):
            self.calls[f"{code.co_filename} {code.co_qualname}"] += 1


def users(count: int) -> str:
    """The text of a file with so many more users."""
    named = KNOWN | {f"more{number}": MECHANISMS for number in range(count)}
    return "".join(
        f"{name}:{kept(mechanism)}\n"
        for name, mechanisms in named.items()
        for mechanism in mechanisms
    )


def kept(mechanism: str) -> str:
    """What a file has of a password that nobody knows."""
    if mechanism == "PLAIN":
        return CHEAP.text
    key = to_base64(bytes(PROOF_BYTES[mechanism]))
    return "$".join((mechanism, "4096", to_base64(bytes(16)), key, key))


async def started(disk: MemoryDisk, more_users: int) -> tuple[Broker, int]:
    """A broker, and the port of its protected listener."""
    disk.write_file("users", users(more_users).encode())
    options = [
        f"listeners=PLAINTEXT://{HOST}:9092,{LISTENER}://{HOST}:9093",
        f"sasl.enabled.mechanisms={','.join(MECHANISMS)}",
        "sasl.users.file=users",
        plain_users(LISTENER, {"injaas": "right"}),
    ]
    broker = await Broker.open(load("", options), simulated_environment(disk), "data")
    _, plaintext = await broker.listen(HOST, 0)
    _, port = await broker.listen(HOST, 0, LISTENER)
    admin = await connect(plaintext)
    created = ScramCredentialUpsertion(
        CREATED, ScramMechanism.SHA_256, 4096, salt=bytes(16), salted_password=bytes(32)
    )
    request = AlterUserScramCredentialsRequest([], [created])
    answer = await admin.send(apis.ALTER_USER_SCRAM_CREDENTIALS, request, timeout_ms=TIMEOUT_MS)
    assert [result.error_code for result in answer.results] == [0]
    admin.close()
    return broker, port


async def answer(client: RawClient) -> bytes:
    size = int.from_bytes(await client.reader.readexactly(4), "big")
    return await client.reader.readexactly(size)


async def claim(client: RawClient, mechanism: str, user: str) -> list[bytes]:
    """Log in with a wrong password; the answers."""
    client.send(apis.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism))
    answers = [await answer(client)]

    async def say(message: bytes) -> None:
        client.send(apis.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(message))
        answers.append(await answer(client))

    if mechanism == "PLAIN":
        await say(f"\0{user}\0wrong".encode())
    else:
        await say(f"n,,n={user},r=client".encode())
        (nonce,) = re.findall(rb"r=[^,]+", answers[-1])
        proof = to_base64(bytes(PROOF_BYTES[mechanism]))
        await say(b"c=biws," + nonce + b",p=" + proof.encode())
    assert await client.is_closed()
    return answers


def masked(answer: bytes) -> bytes:
    return re.sub(rb"([rs])=([^,]+)", lambda m: b"%s=%d" % (m[1], len(m[2])), answer)


@contextmanager
def counting(seen: Refusal) -> Iterator[None]:
    """Without what the garbage collector calls, now and then."""
    gc.disable()
    sys.setprofile(seen.count)
    try:
        yield
    finally:
        sys.setprofile(None)
        gc.enable()


def refused(mechanism: str, user: str, more_users: int = FEW) -> Refusal:
    """Twice, by a broker of its own."""
    seen = Refusal()

    async def scenario(disk: MemoryDisk) -> None:
        broker, port = await started(disk, more_users)
        loop = asyncio.get_running_loop()
        for _ in range(2):
            async with raw_client(port) as client:
                before = loop.time()
                with counting(seen):
                    answers = await claim(client, mechanism, user)
                seen.seconds.append(loop.time() - before)
                seen.answers += map(masked, answers)
        await broker.close()

    simulate(scenario)
    return seen


@cache
def of_unknown(mechanism: str) -> Refusal:
    refused(mechanism, UNKNOWN)  # fills caches
    return refused(mechanism, UNKNOWN)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("user", CLAIMED)
def test_a_refusal_does_not_tell_whether_there_is_such_a_user(mechanism: str, user: str) -> None:
    expected, seen = of_unknown(mechanism), refused(mechanism, user)
    assert seen.answers == expected.answers
    assert seen.seconds == expected.seconds
    assert seen.calls == expected.calls


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_refusal_costs_the_same_however_many_users_there_are(mechanism: str) -> None:
    few, many = of_unknown(mechanism), refused(mechanism, UNKNOWN, MANY)
    assert few.calls == many.calls


def test_what_is_compared() -> None:
    """Else equal observations would mean nothing."""
    plain, scram = of_unknown("PLAIN"), of_unknown("SCRAM-SHA-256")
    assert plain.calls["scrypt"] == 2
    assert plain.calls["compare_digest"] == 4
    assert scram.calls["HASH.digest"] == scram.calls["compare_digest"] == 2
    for seen, answers in ((plain, 2), (scram, 3)):
        assert len(seen.answers) == 2 * answers
        assert [round(each, 2) for each in seen.seconds] == [0.1, 0.2], "slower and slower"
