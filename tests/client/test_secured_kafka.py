"""The client against Apache Kafka with TLS and SASL: each way in, and each way that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping

import pytest

from sharegroup import Producer, ShareConsumer
from tests.apache_kafka.secured import MECHANISMS, SecuredKafka

pytestmark = pytest.mark.kafka

CELLS = [
    ("SSL", None),
    ("MTLS", None),
    *(("SASL_PLAINTEXT", mechanism) for mechanism in MECHANISMS),
    *(("SASL_SSL", mechanism) for mechanism in MECHANISMS),
]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with SecuredKafka(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


async def round_trip(address: str, security: Mapping[str, str], name: str) -> None:
    """Produce, share-consume, answer."""
    async with Producer(address, security=security) as producer:
        await producer.send(name, b"a record")
    async with ShareConsumer(
        name,
        group_id=name,
        bootstrap_servers=address,
        security=security,
        auto_offset_reset="earliest",
        acknowledgement_mode="explicit",
    ) as consumer:
        async for record in consumer:
            assert record.value == b"a record"
            consumer.accept(record)
            break
        results = await consumer.commit()
        assert results
        assert all(error is None for error in results.values())


@pytest.mark.parametrize(("listener", "mechanism"), CELLS)
def test_produce_share_consume_and_answer(
    kafka: SecuredKafka, listener: str, mechanism: str | None
) -> None:
    security = kafka.properties(listener, mechanism)
    name = f"{listener}-{mechanism}"
    asyncio.run(
        asyncio.wait_for(round_trip(kafka.address[listener], security, name), timeout=60)
    )
