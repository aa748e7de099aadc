"""``Admin``'s requests about topics, brokers and settings: one attempt each; errors are raised."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from sharegroup.client.admin.descriptions import (
    ClusterDescription,
    ConfigSetting,
    ListedOffset,
    PartitionDescription,
    ResourceType,
    TopicDescription,
)
from sharegroup.client.core.access_errors import error_on
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.network.metadata import Node
from sharegroup.model import errors
from sharegroup.model.ids import TopicPartition
from sharegroup.wire import apis
from sharegroup.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from sharegroup.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from sharegroup.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from sharegroup.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from sharegroup.wire.messages.describe_cluster import DescribeClusterRequest
from sharegroup.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from sharegroup.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from sharegroup.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from sharegroup.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponseTopic,
)

CONSUMER: Final = -1
"""The replica id of a client that is not a replica."""
DEFAULT_SOURCE: Final = 5
_SET: Final = 0
_DELETE: Final = 1


async def create_topics(
    cluster: Cluster,
    names: Sequence[str],
    partitions: int,
    replication_factor: int,
    configs: Mapping[str, str],
    validate_only: bool = False,
) -> None:
    """CreateTopics."""
    entries = [CreatableTopicConfig(name, str(value)) for name, value in configs.items()]
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(name, partitions, replication_factor, configs=entries) for name in names
        ],
        timeout_ms=cluster.request_timeout_ms,
        validate_only=validate_only,
    )
    response = await cluster.send_to_any(apis.CREATE_TOPICS, request)
    _raise_first(response.topics, "CREATE")


async def delete_topics(cluster: Cluster, names: Sequence[str]) -> None:
    """DeleteTopics."""
    request = DeleteTopicsRequest(
        topic_names=list(names),
        topics=[DeleteTopicState(name) for name in names],
        timeout_ms=cluster.request_timeout_ms,
    )
    response = await cluster.send_to_any(apis.DELETE_TOPICS, request)
    _raise_first(response.responses, "DELETE")


async def create_partitions(cluster: Cluster, topic: str, count: int) -> None:
    """CreatePartitions."""
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(topic, count, None)], timeout_ms=cluster.request_timeout_ms
    )
    response = await cluster.send_to_any(apis.CREATE_PARTITIONS, request)
    _raise_first(response.results, "ALTER")


async def describe_topics(cluster: Cluster, names: Sequence[str] | None) -> list[TopicDescription]:
    """Metadata of these topics (None: of all), sorted by name."""
    topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    response = await cluster.send_to_any(apis.METADATA, request)
    for topic in response.topics:
        if topic.error_code:
            name = f"topic {topic.name!r}"
            raise error_on(topic.error_code, f"{name}: {_text(topic)}", "DESCRIBE", name)
    return sorted((_described(topic) for topic in response.topics), key=lambda topic: topic.name)


def _described(topic: MetadataResponseTopic) -> TopicDescription:
    return TopicDescription(
        name=topic.name or "",
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=tuple(
            PartitionDescription(
                partition=p.partition_index,
                leader=p.leader_id if p.leader_id >= 0 else None,
                leader_epoch=p.leader_epoch,
                replicas=tuple(p.replica_nodes),
                isr=tuple(p.isr_nodes),
            )
            for p in sorted(topic.partitions, key=lambda p: p.partition_index)
        ),
    )


async def describe_cluster(cluster: Cluster) -> ClusterDescription:
    """DescribeCluster."""
    response = await cluster.send_to_any(apis.DESCRIBE_CLUSTER, DescribeClusterRequest())
    _raise_first([response], "DESCRIBE", "the cluster")
    nodes = [Node(b.broker_id, b.host, b.port, b.rack) for b in response.brokers]
    return ClusterDescription(
        cluster_id=response.cluster_id,
        controller_id=response.controller_id,
        nodes=tuple(sorted(nodes)),
    )


async def describe_configs(
    cluster: Cluster, kind: ResourceType, name: str
) -> dict[str, ConfigSetting]:
    """DescribeConfigs of one resource; the settings of a broker are asked of that broker."""
    resource = DescribeConfigsResource(int(kind), name, None)
    request = DescribeConfigsRequest(resources=[resource], include_documentation=True)
    response = await _send_about(cluster, kind, name, apis.DESCRIBE_CONFIGS, request)
    _raise_first(response.results, "DESCRIBE_CONFIGS", _resource(kind, name))
    return {
        entry.name: ConfigSetting(
            name=entry.name,
            value=entry.value,
            source=entry.config_source,
            is_default=entry.config_source == DEFAULT_SOURCE,
            read_only=entry.read_only,
            sensitive=entry.is_sensitive,
            documentation=entry.documentation,
        )
        for result in response.results
        for entry in result.configs
    }


async def alter_configs(
    cluster: Cluster,
    kind: ResourceType,
    name: str,
    settings: Mapping[str, str | None],
    validate_only: bool = False,
) -> None:
    """IncrementalAlterConfigs of one resource."""
    entries = [
        AlterableConfig(
            key, _DELETE if value is None else _SET, None if value is None else str(value)
        )
        for key, value in settings.items()
    ]
    request = IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(int(kind), name, entries)], validate_only=validate_only
    )
    response = await _send_about(cluster, kind, name, apis.INCREMENTAL_ALTER_CONFIGS, request)
    _raise_first(response.responses, "ALTER_CONFIGS", _resource(kind, name))


async def _send_about(
    cluster: Cluster, kind: ResourceType, name: str, api: apis.Api, request: Any
) -> Any:
    if kind is ResourceType.BROKER and name:
        if int(name) not in cluster.metadata.nodes:
            await cluster.refresh()  # the broker may be new
        return await cluster.send(int(name), api, request)
    return await cluster.send_to_any(api, request)


async def list_offsets(
    cluster: Cluster,
    partitions: Sequence[TopicPartition],
    timestamp: int,
    *,
    committed: bool = False,
) -> dict[TopicPartition, ListedOffset]:
    """ListOffsets, at each partition's leader. The first error of a partition is raised."""
    by_leader = await leaders_of(cluster, partitions)
    answers = await asyncio.gather(
        *(
            offsets_at(cluster, node, mine, timestamp, committed=committed)
            for node, mine in by_leader.items()
        )
    )
    found: dict[TopicPartition, ListedOffset] = {}
    failed: list[errors.KafkaError] = []
    for where, one in (item for answer in answers for item in answer.items()):
        if isinstance(one, errors.KafkaError):
            failed.append(one)
        else:
            found[where] = one
    if failed:
        await cluster.refresh()  # so that a retry knows the current leader
        raise failed[0]
    return found


async def offsets_at(
    cluster: Cluster,
    node_id: int,
    partitions: Iterable[TopicPartition],
    timestamp: int,
    *,
    committed: bool,
) -> dict[TopicPartition, ListedOffset | errors.KafkaError]:
    """ListOffsets, at the leader of all these partitions: the offset of each, or its error."""
    topics = [
        ListOffsetsTopic(
            name, [ListOffsetsPartition(index, timestamp=timestamp) for index in indexes]
        )
        for name, indexes in by_topic(partitions).items()
    ]
    request = ListOffsetsRequest(
        replica_id=CONSUMER,
        isolation_level=int(committed),
        topics=topics,
        timeout_ms=cluster.request_timeout_ms,
    )
    response = await cluster.send(node_id, apis.LIST_OFFSETS, request)
    return {
        TopicPartition(topic.name, p.partition_index): errors.error_from_code(p.error_code)
        if p.error_code
        else ListedOffset(
            offset=p.offset,
            timestamp=p.timestamp if p.timestamp >= 0 else None,
            leader_epoch=p.leader_epoch,
        )
        for topic in response.topics
        for p in topic.partitions
    }


async def delete_records(
    cluster: Cluster, before: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """DeleteRecords, at each partition's leader."""

    async def ask(node_id: int, mine: list[TopicPartition]) -> Any:
        topics = [
            DeleteRecordsTopic(
                name,
                [DeleteRecordsPartition(i, before[TopicPartition(name, i)]) for i in indexes],
            )
            for name, indexes in by_topic(mine).items()
        ]
        request = DeleteRecordsRequest(topics=topics, timeout_ms=cluster.request_timeout_ms)
        return await cluster.send(node_id, apis.DELETE_RECORDS, request)

    by_leader = await leaders_of(cluster, before)
    responses = await asyncio.gather(*(ask(node, mine) for node, mine in by_leader.items()))
    answers = [(t.name, p) for response in responses for t in response.topics for p in t.partitions]
    await _check_leaders(cluster, [p for _, p in answers])
    return {TopicPartition(name, p.partition_index): p.low_watermark for name, p in answers}


async def leaders_of(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> dict[int, list[TopicPartition]]:
    """The partitions by their leaders' node ids. The first error of a partition is raised."""
    nodes, failed = await leaders_found(cluster, partitions)
    for error in failed.values():
        if isinstance(error, errors.LeaderNotAvailable):
            await cluster.refresh()
        raise error
    return nodes


async def leaders_found(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> tuple[dict[int, list[TopicPartition]], dict[TopicPartition, errors.KafkaError]]:
    """The partitions by their leaders' node ids; and why the others have none.

    Raises:
        NetworkException: no broker can be reached.
    """
    nodes: dict[int, list[TopicPartition]] = {}
    failed: dict[TopicPartition, errors.KafkaError] = {}
    for name, indexes in by_topic(partitions).items():
        wheres = [TopicPartition(name, index) for index in indexes]
        try:
            leaders = await _leaders_in(cluster, name, max(indexes))
        except errors.NetworkException:
            raise
        except errors.KafkaError as error:
            failed |= dict.fromkeys(wheres, error)
            continue
        for where in wheres:
            if not 0 <= where.partition < len(leaders):
                text = f"{name} has no partition {where.partition}"
                failed[where] = errors.UnknownTopicOrPartition(text)
            elif leaders[where.partition] not in cluster.metadata.nodes:
                failed[where] = errors.LeaderNotAvailable(f"{where} has no leader")
            else:
                nodes.setdefault(leaders[where.partition], []).append(where)
    return nodes, failed


async def _leaders_in(cluster: Cluster, name: str, highest: int) -> list[int]:
    """The leader of each partition of a topic. ``highest``: the highest one that is wanted."""
    topic = await cluster.topic(name)
    if highest >= len(topic.partitions):  # the partition may be new
        await cluster.refresh()
        topic = await cluster.topic(name)
    return [partition.leader for partition in topic.partitions]


async def _check_leaders(cluster: Cluster, answers: Sequence[Any]) -> None:
    if any(answer.error_code for answer in answers):
        await cluster.refresh()  # so that a retry knows the current leader
    for answer in answers:
        if answer.error_code:
            raise errors.error_from_code(answer.error_code, getattr(answer, "error_message", None))


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The partitions' numbers by their topics' names."""
    topics: dict[str, list[int]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(partition.partition)
    return topics


def _raise_first(answers: Iterable[Any], operation: str, resource: str | None = None) -> None:
    """Raise the first error among these answers; some answers carry no error message.

    Args:
        operation: the operation that was asked for, as ACLs call it.
        resource: the resource; None: the topic that the answer names.
    """
    for answer in answers:
        if answer.error_code:
            text = getattr(answer, "error_message", None)
            about = f"topic {answer.name!r}" if resource is None else resource
            raise error_on(answer.error_code, text, operation, about)


def _resource(kind: ResourceType, name: str) -> str:
    """The resource as :func:`error_on` takes it. Settings of a broker need a right on the
    cluster."""
    return "the cluster" if kind is ResourceType.BROKER else f"{kind.name.lower()} {name!r}"


def _text(answer: Any) -> str:
    return errors.error_from_code(answer.error_code).message
