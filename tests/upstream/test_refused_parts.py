"""A request to the cluster of which its client may do some: the rest is refused, part by part, as
at Kafka and at a broker with its own log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

from sharegroup.broker.authorization.access import Access
from sharegroup.broker.authorization.acl_authorizer import AclAuthorizer
from sharegroup.broker.authorization.acls import ANY, AclRule
from sharegroup.broker.authorization.resources import (
    CLUSTER,
    Operation,
    Resource,
    ResourceType,
    group,
    topic,
)
from sharegroup.broker.passing.refused_parts import PARTS, split
from sharegroup.model import errors
from sharegroup.wire import apis
from sharegroup.wire.apis import Api
from sharegroup.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from sharegroup.wire.messages.alter_configs import AlterConfigsRequest
from sharegroup.wire.messages.alter_configs import AlterConfigsResource as Replaced
from sharegroup.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from sharegroup.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from sharegroup.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from sharegroup.wire.messages.describe_groups import DescribeGroupsRequest
from sharegroup.wire.messages.describe_transactions import DescribeTransactionsRequest
from sharegroup.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from sharegroup.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from sharegroup.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from sharegroup.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from sharegroup.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from sharegroup.wire.schema import Message
from tests.servers import admin
from tests.servers.process import HOST
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.process

ALICE = "User:alice"
MINE, OTHERS, OURS = NAMES = "mine", "others", "__sharegroup_fleet_settings"
TRANSACTION = Resource(ResourceType.TRANSACTIONAL_ID, MINE)
TOPIC = 2

Case = tuple[Message, tuple[Operation, Resource]]
CASES: dict[Api, Case] = {
    apis.OFFSET_COMMIT: (
        OffsetCommitRequest(
            "g",
            topics=[
                OffsetCommitRequestTopic(name, partitions=[OffsetCommitRequestPartition(1, 5)])
                for name in NAMES
            ],
        ),
        (Operation.READ, topic(MINE)),
    ),
    apis.OFFSET_DELETE: (
        OffsetDeleteRequest(
            "g",
            [OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(1)]) for name in NAMES],
        ),
        (Operation.READ, topic(MINE)),
    ),
    apis.TXN_OFFSET_COMMIT: (
        TxnOffsetCommitRequest(
            "t",
            "g",
            topics=[
                TxnOffsetCommitRequestTopic(
                    name, partitions=[TxnOffsetCommitRequestPartition(1, 5)]
                )
                for name in NAMES
            ],
        ),
        (Operation.READ, topic(MINE)),
    ),
    apis.OFFSET_FETCH: (
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(name) for name in NAMES]),
        (Operation.DESCRIBE, group(MINE)),
    ),
    apis.ADD_PARTITIONS_TO_TXN: (
        AddPartitionsToTxnRequest(
            v3_and_below_topics=[AddPartitionsToTxnTopic(name, [1]) for name in NAMES]
        ),
        (Operation.WRITE, topic(MINE)),
    ),
    apis.CREATE_TOPICS: (
        CreateTopicsRequest([CreatableTopic(name) for name in NAMES]),
        (Operation.CREATE, topic(MINE)),
    ),
    apis.CREATE_PARTITIONS: (
        CreatePartitionsRequest([CreatePartitionsTopic(name, 3) for name in NAMES]),
        (Operation.ALTER, topic(MINE)),
    ),
    apis.DESCRIBE_GROUPS: (
        DescribeGroupsRequest(list(NAMES)),
        (Operation.DESCRIBE, group(MINE)),
    ),
    apis.CONSUMER_GROUP_DESCRIBE: (
        ConsumerGroupDescribeRequest(list(NAMES)),
        (Operation.DESCRIBE, group(MINE)),
    ),
    apis.DESCRIBE_TRANSACTIONS: (
        DescribeTransactionsRequest(list(NAMES)),
        (Operation.DESCRIBE, TRANSACTION),
    ),
    apis.INCREMENTAL_ALTER_CONFIGS: (
        IncrementalAlterConfigsRequest([AlterConfigsResource(TOPIC, name) for name in NAMES]),
        (Operation.ALTER_CONFIGS, topic(MINE)),
    ),
    apis.ALTER_CONFIGS: (
        AlterConfigsRequest([Replaced(TOPIC, name) for name in NAMES]),
        (Operation.ALTER_CONFIGS, topic(MINE)),
    ),
}
REFUSED = {
    errors.TopicAuthorizationFailed.code,
    errors.GroupAuthorizationFailed.code,
    errors.TransactionalIdAuthorizationFailed.code,
}


def test_each_request_that_is_refused_in_parts_is_tried() -> None:
    assert {api.key for api in CASES} == PARTS.keys()


@pytest.mark.parametrize("api", CASES, ids=lambda api: api.name)
def test_the_parts_that_may_not_be_done_are_refused(api: Api) -> None:
    request, (operation, resource) = CASES[api]
    access = Access(AclAuthorizer([AclRule(True, ALICE, ANY, operation, resource)]), ALICE, HOST)
    found = split(access, api, request)
    parts = PARTS[api.key]
    codes = {text_of(one): codes_of(one) for one in found.refused}
    if parts.all_or_nothing:
        assert found.allowed is None
        assert codes.pop(MINE) == {errors.OperationNotAttempted.code}
    else:
        assert [text_of(one) for one in getattr(found.allowed, parts.asked)] == [MINE]
    assert codes.keys() == {OTHERS, OURS}
    assert all(len(one) == 1 and one <= REFUSED for one in codes.values())
    assert getattr(found.answer(api, None), found.told) == list(found.refused)


@pytest.mark.parametrize("api", CASES, ids=lambda api: api.name)
def test_who_may_do_everything_is_refused_ours_alone(api: Api) -> None:
    refused = split(Access(), api, CASES[api][0]).refused
    assert OURS in {text_of(one) for one in refused}
    assert PARTS[api.key].all_or_nothing or len(refused) == 1


@pytest.mark.parametrize("resource", [CLUSTER, topic(MINE)])
def test_a_topic_is_made_by_whom_may_make_it_or_any(resource: Resource) -> None:
    request = CreateTopicsRequest([CreatableTopic(MINE)])
    rule = AclRule(True, ALICE, ANY, Operation.CREATE, resource)
    access = Access(AclAuthorizer([rule]), ALICE, HOST)
    assert split(access, apis.CREATE_TOPICS, request).allowed == request


ACLS = """\
permission,principal,host,operation,resource_type,name,pattern
allow,User:ANONYMOUS,*,all,topic,mine,literal
allow,User:ANONYMOUS,*,all,topic,mine-too,literal
allow,User:ANONYMOUS,*,describe,topic,others,literal
allow,User:ANONYMOUS,*,all,group,readers,literal
"""


def test_the_rest_of_a_request_is_done(cluster: RunningServer, tmp_path: Path) -> None:
    """By librdkafka."""
    admin.Admin(cluster.bootstrap).create_topic("mine")
    admin.Admin(cluster.bootstrap).create_topic("others")
    acls = tmp_path / "acls.csv"
    acls.write_text(ACLS)
    options = "authorizer.class.name=StandardAuthorizer", f"authorizer.acl.file={acls}"
    arguments = ["--upstream", cluster.bootstrap]
    with SharegroupServer(tmp_path, *options, arguments=arguments) as node:
        settings: dict[str, Any] = {"bootstrap.servers": node.bootstrap, **admin.SILENT}
        consumer = Consumer({**settings, "group.id": "readers", "enable.auto.commit": False})
        places = [TopicPartition("mine", 0, 5), TopicPartition("others", 0, 6)]
        with pytest.raises(KafkaException, match="Topic authorization failed"):
            consumer.commit(offsets=places, asynchronous=False)
        [kept] = consumer.committed([TopicPartition("mine", 0)], 60)
        assert kept.offset == 5
        consumer.close()
        client = AdminClient(settings)
        refused = "TOPIC_AUTHORIZATION_FAILED"
        made = client.create_topics([NewTopic("mine-too", 1), NewTopic("others-too", 1)])
        assert outcomes(made) == {"mine-too": "", "others-too": refused}
        grown = client.create_partitions([NewPartitions("mine", 2), NewPartitions("others", 2)])
        assert outcomes(grown) == {"mine": "", "others": refused}
        altered = client.incremental_alter_configs([retention("mine"), retention("others")])
        assert outcomes(altered) == {"mine": "", "others": refused}


def retention(name: str) -> ConfigResource:
    entry = ConfigEntry("retention.ms", "1", incremental_operation=AlterConfigOpType.SET)
    return ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=[entry])


def outcomes(futures: dict[Any, Any]) -> dict[str, str]:
    """Name → the error; empty: none."""
    found = {}
    for one, future in futures.items():
        failed = future.exception(60)
        assert failed is None or isinstance(failed, KafkaException)
        found[getattr(one, "name", one)] = failed.args[0].name() if failed else ""
    return found


def text_of(part: Any) -> str:
    """The name of a part."""
    if isinstance(part, str):
        return part
    (name,) = [text for one in part.__slots__ if (text := getattr(part, one)) in NAMES]
    return str(name)


def codes_of(part: Any) -> set[int]:
    """The error of a part of a response, or those of its own parts."""
    if hasattr(part, "error_code"):
        return {part.error_code}
    (below,) = [one for name in part.__slots__ if isinstance(one := getattr(part, name), list)]
    return {getattr(one, "error_code", None) or one.partition_error_code for one in below}
