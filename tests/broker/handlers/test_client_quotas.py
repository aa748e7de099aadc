"""AlterClientQuotas and DescribeClientQuotas over a socket: what is kept, and what is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sharegroup.broker.server import Broker
from sharegroup.model.errors import KafkaError
from sharegroup.model.limits import QUOTA_ALTERATIONS_MAX, QUOTA_PARTS_MAX, QUOTAS_MAX
from sharegroup.quotas.selection import ANY, DEFAULT, EXACT
from sharegroup.wire import apis
from sharegroup.wire.codec import decode
from sharegroup.wire.framing import request_frame, response_body
from sharegroup.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
)
from tests.broker.by_hand import connect
from tests.broker.quota_wire import altered, quotas_of, set_quota, set_quotas
from tests.broker.running import run, running

INVALID_REQUEST = 42
POLICY_VIOLATION = 44


def test_quotas_are_set_described_and_removed(tmp_path: Path) -> None:
    async def scenario(_: Broker, port: int) -> None:
        connection = await connect(port)
        await set_quota(connection, [("user", "u")], producer_byte_rate=1024, request_percentage=50)
        await set_quota(connection, [("client-id", "c"), ("user", None)], consumer_byte_rate=5)
        await set_quota(connection, [("user", None), ("client-id", "c")], producer_byte_rate=6)
        await set_quota(connection, [("ip", "10.0.0.1")], connection_creation_rate=7)
        user = {(("user", "u"),): {"producer_byte_rate": 1024, "request_percentage": 50}}
        both = {
            (("client-id", "c"), ("user", None)): {
                "consumer_byte_rate": 5,
                "producer_byte_rate": 6,
            }
        }
        address = {(("ip", "10.0.0.1"),): {"connection_creation_rate": 7}}
        assert await quotas_of(connection) == user | both | address
        assert await quotas_of(connection, ("user", EXACT, "u"), strict=True) == user
        assert await quotas_of(connection, ("user", DEFAULT, None)) == both
        assert await quotas_of(connection, ("user", ANY, None), strict=True) == user
        assert await quotas_of(connection, ("ip", ANY, None)) == address
        await set_quota(connection, [("user", "u")], producer_byte_rate=None)
        assert await quotas_of(connection, ("user", EXACT, "u")) == {
            (("user", "u"),): {"request_percentage": 50}
        }
        await set_quota(connection, [("user", "u")], request_percentage=None)
        assert await quotas_of(connection) == both | address

    run(tmp_path, scenario)


def test_they_outlive_the_broker(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as (broker, port):
            await set_quota(await connect(port), [("client-id", None)], producer_byte_rate=9)
            assert broker.parts.quotas.active
        async with running(tmp_path) as (broker, port):
            assert broker.parts.quotas.active, "they are in force from the start"
            connection = await connect(port)
            found = await quotas_of(connection)
            assert found == {(("client-id", None),): {"producer_byte_rate": 9}}
            await set_quota(connection, [("client-id", None)], producer_byte_rate=None)
            assert not broker.parts.quotas.active

    asyncio.run(main())


def test_each_entity_changes_wholly_or_not_at_all(tmp_path: Path) -> None:
    async def scenario(_: Broker, port: int) -> None:
        connection = await connect(port)
        results = await set_quotas(
            connection,
            altered([("user", "u")], producer_byte_rate=1, no_such_rate=2),
            altered([("user", "v")], producer_byte_rate=3),
            altered([("user", "w")], producer_byte_rate=4),
            altered([("user", "w")], consumer_byte_rate=5),
        )
        assert results == [
            (INVALID_REQUEST, "Invalid configuration key no_such_rate"),
            (0, None),
            (INVALID_REQUEST, "Ignoring duplicate entity {'user': 'w'}"),
        ]
        found = await quotas_of(connection)
        assert found == {(("user", "v"),): {"producer_byte_rate": 3}}

    run(tmp_path, scenario)


def test_a_trial_changes_nothing(tmp_path: Path) -> None:
    async def scenario(_: Broker, port: int) -> None:
        connection = await connect(port)
        entries = [
            altered([("user", "u")], producer_byte_rate=1),
            altered([("user", "v")], producer_byte_rate=-1),
        ]
        results = await set_quotas(connection, *entries, validate_only=True)
        assert [code for code, _ in results] == [0, INVALID_REQUEST]
        assert await quotas_of(connection) == {}

    run(tmp_path, scenario)


def test_both_versions_are_served(tmp_path: Path) -> None:
    async def scenario(_: Broker, port: int) -> None:
        api = apis.ALTER_CLIENT_QUOTAS
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for version in (0, 1):
            entry = altered([("user", None)], producer_byte_rate=version + 1)
            request = AlterClientQuotasRequest([entry])
            writer.writelines(request_frame(api, version, 1, "by-hand", request))
            frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
            body = response_body(api, version, frame)[1]
            answer = decode(AlterClientQuotasResponse, version, frame, body)
            assert [each.error_code for each in answer.entries] == [0]
        writer.close()
        found = await quotas_of(await connect(port))
        assert found == {(("user", None),): {"producer_byte_rate": 2}}

    run(tmp_path, scenario)


def test_there_is_a_most_of_quotas(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        connection = await connect(port)
        for first in range(0, QUOTAS_MAX, QUOTA_ALTERATIONS_MAX):
            entries = [
                altered([("user", f"u{first + number}")], producer_byte_rate=1)
                for number in range(QUOTA_ALTERATIONS_MAX)
            ]
            assert set(await set_quotas(connection, *entries)) == {(0, None)}
        ((code, sentence),) = await set_quotas(
            connection, altered([("user", "one more")], producer_byte_rate=1)
        )
        assert (code, sentence) == (
            POLICY_VIOLATION,
            "there are 10000 quotas; at most 10000 are kept",
        )
        assert len(broker.parts.security.state.quotas) == QUOTAS_MAX
        await set_quota(connection, [("user", "u1")], producer_byte_rate=5)

    run(tmp_path, scenario)


def test_a_request_with_too_many_parts_closes_its_connection(tmp_path: Path) -> None:
    one: list[tuple[str, str | None]] = [("user", "u")]
    rates: dict[str, float | None] = {f"rate-{n}": 1.0 for n in range(QUOTA_PARTS_MAX + 1)}
    fitting = dict(list(rates.items())[1:])

    async def scenario(_: Broker, port: int) -> None:
        connection = await connect(port)
        entries = [altered(one * QUOTA_PARTS_MAX, **fitting)] * QUOTA_ALTERATIONS_MAX
        assert (await set_quotas(connection, *entries))[0][0] == INVALID_REQUEST
        for too_many in (
            [altered(one * (QUOTA_PARTS_MAX + 1))],
            [altered(one, **rates)],
            [altered([])] * (QUOTA_ALTERATIONS_MAX + 1),
        ):
            with pytest.raises(KafkaError, match="was lost"):
                await set_quotas(await connect(port), *too_many)

    run(tmp_path, scenario)
