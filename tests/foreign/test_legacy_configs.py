"""AlterConfigs, which replaces all settings of a resource: from the clients that still send it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest
from aiokafka.admin import AIOKafkaAdminClient, config_resource
from confluent_kafka import KafkaException
from confluent_kafka.admin import ConfigResource

from tests.servers.admin import ADMIN_SECONDS, Admin
from tests.servers.running import RunningServer

pytestmark = [
    pytest.mark.process,
    pytest.mark.filterwarnings("ignore:alter_configs has been deprecated"),
]


def replace(admin: Admin, topic: str, configs: Mapping[str, str]) -> None:
    """Send AlterConfigs; raises KafkaException."""
    resource = ConfigResource("topic", topic, set_config=dict(configs))
    for done in admin.client.alter_configs([resource]).values():
        done.result(ADMIN_SECONDS)


def own_configs(admin: Admin, topic: str) -> dict[str, str | None]:
    """What is set for the topic itself."""
    resource = ConfigResource("topic", topic)
    (done,) = admin.client.describe_configs([resource]).values()
    found = done.result(ADMIN_SECONDS).values()
    return {entry.name: entry.value for entry in found if not entry.is_default}


def test_it_replaces_all_that_was_set(admin: Admin, name: str) -> None:
    admin.create_topic(name, **{"retention.ms": "1000", "segment.bytes": "1048576"})
    replace(admin, name, {"retention.ms": "2000"})
    assert own_configs(admin, name) == {"retention.ms": "2000"}
    replace(admin, name, {})
    assert own_configs(admin, name) == {}


@pytest.mark.parametrize(
    ("configs", "refused"),
    [({"retention.ms": "soon"}, "INVALID_CONFIG"), ({"no.such": "1"}, "INVALID_CONFIG")],
)
def test_an_invalid_change_is_refused_as_a_whole(
    admin: Admin, name: str, configs: Mapping[str, str], refused: str
) -> None:
    admin.create_topic(name, **{"segment.bytes": "1048576"})
    with pytest.raises(KafkaException) as error:
        replace(admin, name, {"retention.ms": "1000", **configs})
    assert error.value.args[0].name() == refused
    assert own_configs(admin, name) == {"segment.bytes": "1048576"}
    with pytest.raises(KafkaException) as unknown:
        replace(admin, f"no-{name}", {"retention.ms": "1000"})
    assert unknown.value.args[0].name() == "UNKNOWN_TOPIC_OR_PART"


def test_aiokafka(broker: RunningServer, admin: Admin, name: str) -> None:
    async def alter() -> None:
        kafka = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
        await kafka.start()
        try:
            kind = config_resource.ConfigResourceType.TOPIC
            wanted = config_resource.ConfigResource(kind, name, configs={"retention.ms": "3000"})
            await kafka.alter_configs([wanted])
        finally:
            await kafka.close()

    admin.create_topic(name, **{"segment.bytes": "1048576"})
    asyncio.run(alter())
    assert own_configs(admin, name) == {"retention.ms": "3000"}
