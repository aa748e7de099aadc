"""DescribeUserScramCredentials and AlterUserScramCredentials, and the topic that keeps them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from sharegroup.broker.internal_topics import SECURITY
from sharegroup.broker.server import Broker
from sharegroup.client.network.connection import Connection
from sharegroup.client.network.versions import LAST_BY_NAME
from sharegroup.model.errors import (
    DuplicateResource,
    ResourceNotFound,
    UnacceptableCredential,
    UnsupportedSaslMechanism,
)
from sharegroup.model.limits import SCRAM_SALT_BYTES_MAX, USER_NAME_LENGTH_MAX
from sharegroup.sasl.scram_keys import ITERATIONS_MAX, ITERATIONS_MIN, ScramMechanism, credential
from sharegroup.wire import apis
from sharegroup.wire.batch import encode_batch
from sharegroup.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from sharegroup.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from sharegroup.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from sharegroup.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from sharegroup.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    ScramUserName,
)
from sharegroup.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from sharegroup.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from sharegroup.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from sharegroup.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.by_hand import TIMEOUT_MS, connect
from tests.broker.running import run

SHA_256, SHA_512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512
SALTED = bytes(32)
UNKNOWN = 3


def upsertion(
    name: str = "alice",
    mechanism: int = SHA_256,
    iterations: int = 4096,
    salt: bytes = b"salt",
    salted: bytes = SALTED,
) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(name, mechanism, iterations, salt, salted)


async def ask(connection: Connection, api: apis.Api, request: Any) -> Any:
    return await connection.send(
        api, request, timeout_ms=TIMEOUT_MS, version_max=LAST_BY_NAME.get(api)
    )


async def alter(
    connection: Connection,
    *upsertions: ScramCredentialUpsertion,
    deletions: Iterable[ScramCredentialDeletion] = (),
) -> dict[str, int]:
    request = AlterUserScramCredentialsRequest(list(deletions), list(upsertions))
    answer = await ask(connection, apis.ALTER_USER_SCRAM_CREDENTIALS, request)
    return {result.user: result.error_code for result in answer.results}


async def described(connection: Connection, *names: str) -> dict[str, Any]:
    request = DescribeUserScramCredentialsRequest([ScramUserName(name) for name in names] or None)
    answer = await ask(connection, apis.DESCRIBE_USER_SCRAM_CREDENTIALS, request)
    assert answer.error_code == 0
    return {
        user.user: user.error_code
        or {info.mechanism: info.iterations for info in user.credential_infos}
        for user in answer.results
    }


def test_the_life_of_a_user(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        connection = await connect(port)
        done = await alter(
            connection, upsertion(), upsertion(mechanism=SHA_512, iterations=8192), upsertion("b")
        )
        assert done == {"alice": 0, "b": 0}
        assert await described(connection) == {
            "alice": {SHA_256: 4096, SHA_512: 8192},
            "b": {SHA_256: 4096},
        }
        assert await described(connection, "b", "nobody", "alice", "alice") == {
            "b": {SHA_256: 4096},
            "nobody": ResourceNotFound.code,
            "alice": DuplicateResource.code,
        }
        deletions = [ScramCredentialDeletion("alice", SHA_256), ScramCredentialDeletion("c", 1)]
        done = await alter(connection, deletions=deletions)
        assert done == {"alice": 0, "c": ResourceNotFound.code}
        assert await described(connection, "alice") == {"alice": {SHA_512: 8192}}
        kept = broker.parts.security.state.credentials
        assert kept["b", SHA_256] == credential(SHA_256, SALTED, b"salt", 4096)
        connection.close()

    run(tmp_path, scenario)

    async def after_a_restart(broker: Broker, port: int) -> None:
        connection = await connect(port)
        assert await described(connection) == {"alice": {SHA_512: 8192}, "b": {SHA_256: 4096}}
        connection.close()

    run(tmp_path, after_a_restart)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (upsertion(name=""), UnacceptableCredential),
        (upsertion(name="x" * (USER_NAME_LENGTH_MAX + 1)), UnacceptableCredential),
        (upsertion(mechanism=0), UnsupportedSaslMechanism),
        (upsertion(mechanism=3), UnsupportedSaslMechanism),
        (upsertion(iterations=ITERATIONS_MIN - 1), UnacceptableCredential),
        (upsertion(iterations=ITERATIONS_MAX + 1), UnacceptableCredential),
        (upsertion(salt=b""), UnacceptableCredential),
        (upsertion(salted=b""), UnacceptableCredential),
        (upsertion(salt=bytes(SCRAM_SALT_BYTES_MAX + 1)), UnacceptableCredential),
    ],
)
def test_credentials_that_are_refused(
    tmp_path: Path, change: ScramCredentialUpsertion, error: Any
) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        connection = await connect(port)
        second = upsertion(change.name, SHA_512)  # a user changes wholly or not at all
        assert await alter(connection, change, second, upsertion("bob")) == {
            change.name: error.code,
            "bob": 0,
        }
        assert list(await described(connection)) == ["bob"]
        connection.close()

    run(tmp_path, scenario)


def test_values_at_the_edge(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        connection = await connect(port)
        name = "x" * USER_NAME_LENGTH_MAX
        assert await alter(
            connection,
            upsertion(name, SHA_256, ITERATIONS_MIN, bytes(SCRAM_SALT_BYTES_MAX)),
            upsertion(name, SHA_512, ITERATIONS_MAX),
        ) == {name: 0}
        connection.close()

    run(tmp_path, scenario)


def test_a_user_twice(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        connection = await connect(port)
        assert await alter(connection, upsertion(), upsertion()) == {
            "alice": DuplicateResource.code
        }
        await alter(connection, upsertion())
        both = [ScramCredentialDeletion("alice", SHA_256)]
        assert await alter(connection, upsertion(), deletions=both) == {
            "alice": DuplicateResource.code
        }
        assert await described(connection) == {"alice": {SHA_256: 4096}}
        connection.close()

    run(tmp_path, scenario)


def test_no_request_finds_the_topic_of_the_credentials(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        connection = await connect(port)
        await alter(connection, upsertion())
        internal = broker.parts.topics.internal(SECURITY)
        assert internal is not None

        all_topics = await ask(connection, apis.METADATA, MetadataRequest(None))
        assert not all_topics.topics
        wanted = [
            MetadataRequestTopic(name=SECURITY),
            MetadataRequestTopic(topic_id=internal.topic_id),
        ]
        by_name = await ask(connection, apis.METADATA, MetadataRequest(wanted[:1], True))
        assert by_name.topics[0].error_code == UNKNOWN
        by_id = await ask(connection, apis.METADATA, MetadataRequest(wanted[1:]))
        assert by_id.topics[0].error_code == 100

        fetch = FetchRequest(topics=[FetchTopic(SECURITY, partitions=[FetchPartition(0)])])
        fetched = await ask(connection, apis.FETCH, fetch)
        assert fetched.responses[0].partitions[0].error_code == UNKNOWN
        listing = ListOffsetsTopic(SECURITY, [ListOffsetsPartition(0, -1, -1)])
        listed = await ask(connection, apis.LIST_OFFSETS, ListOffsetsRequest(-1, 0, [listing]))
        assert listed.topics[0].partitions[0].error_code == UNKNOWN
        batch = encode_batch([(b"k", b"v")], timestamp_ms=0)
        data = [TopicProduceData(SECURITY, partition_data=[PartitionProduceData(0, batch)])]
        produced = await ask(connection, apis.PRODUCE, ProduceRequest(acks=-1, topic_data=data))
        assert produced.responses[0].partition_responses[0].error_code == UNKNOWN
        about = [DescribeConfigsResource(2, SECURITY)]
        configs = await ask(connection, apis.DESCRIBE_CONFIGS, DescribeConfigsRequest(about))
        assert configs.results[0].error_code == UNKNOWN
        deletion = DeleteTopicsRequest(topics=[DeleteTopicState(SECURITY)])
        deleted = await ask(connection, apis.DELETE_TOPICS, deletion)
        assert deleted.responses[0].error_code == UNKNOWN
        creation = CreateTopicsRequest([CreatableTopic(SECURITY, 1, 1)])
        created = await ask(connection, apis.CREATE_TOPICS, creation)
        assert created.topics[0].error_code == 17
        assert await described(connection) == {"alice": {SHA_256: 4096}}
        connection.close()

    run(tmp_path, scenario)


def test_the_secret_of_the_broker_is_no_user(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        connection = await connect(port)
        assert await described(connection) == {}
        assert await described(connection, "") == {"": ResourceNotFound.code}
        deletions = [ScramCredentialDeletion("", SHA_256)]
        assert await alter(connection, deletions=deletions) == {"": UnacceptableCredential.code}
        assert broker.parts.security.state.credentials
        connection.close()

    run(tmp_path, scenario, "listeners=PLAINTEXT://127.0.0.1:9092,SASL_PLAINTEXT://127.0.0.1:9093")


def test_who_changes_users_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        connection = await connect(port)
        await alter(connection, upsertion(), upsertion("bob", iterations=1))
        await alter(connection, upsertion(mechanism=SHA_512))
        gone = [ScramCredentialDeletion("alice", SHA_256), ScramCredentialDeletion("bob", SHA_256)]
        await alter(connection, deletions=gone)
        connection.close()

    with caplog.at_level("INFO", logger="sharegroup.authorizer"):
        run(tmp_path, scenario)
    told = [line for line in caplog.messages if " has " in line]
    assert told == [
        "User:ANONYMOUS from 127.0.0.1 has set a password of a user: alice",
        "User:ANONYMOUS from 127.0.0.1 has set a password of a user: alice",
        "User:ANONYMOUS from 127.0.0.1 has deleted a password of a user: alice",
    ]
