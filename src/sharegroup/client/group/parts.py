"""The parts of a consumer, plugged together.

No part holds a reference to the consumer: the tasks of the parts run until they are cut, and a
consumer that its application has dropped must be noticed all the same.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from sharegroup.client.core.positions import Positions
from sharegroup.client.core.uncommitted_ranges import Covered
from sharegroup.client.group.closed_state import ClosedState
from sharegroup.client.group.committer import OffsetCommitter
from sharegroup.client.group.fetcher import LogFetcher
from sharegroup.client.group.identity import GroupIdentity
from sharegroup.client.group.member import GroupMember
from sharegroup.client.group.metrics import GroupConsumerMetrics
from sharegroup.client.group.position_lookup import PositionLookup
from sharegroup.client.group.reader import Reader
from sharegroup.client.group.rebalancing import Rebalancing
from sharegroup.client.group.settings import (
    CheckedConsumerSettings,
    member_settings,
    read_settings,
    reset_timestamp,
)
from sharegroup.client.group.topic_identities import TopicIdentities
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.records.decode import Decoding, decoding_of
from sharegroup.client.wakeup import WakeupCall


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerParts:
    """See the module.

    Attributes:
        owns_cluster: nobody else uses the connections.
        news: set when something has happened that a poll waits for.
    """

    settings: CheckedConsumerSettings
    cluster: Cluster
    owns_cluster: bool
    state: ClosedState
    wakeup: WakeupCall
    news: asyncio.Event
    positions: Positions
    decoding: Decoding
    metrics: GroupConsumerMetrics
    member: GroupMember
    identity: GroupIdentity
    fetcher: LogFetcher
    reader: Reader
    committer: OffsetCommitter
    lookup: PositionLookup
    rebalancing: Rebalancing
    identities: TopicIdentities

    def cut(self) -> list[asyncio.Task[Any]]:
        """Stop all tasks, without telling the group. Returns the cancelled tasks, which are about
        to end."""
        parts = (self.committer, self.rebalancing, self.lookup, self.fetcher, self.member)
        ending = [task for part in parts for task in part.cut()]
        return ending + self.cluster.cut() if self.owns_cluster else ending


def consumer_parts(settings: CheckedConsumerSettings, cluster: Cluster | None) -> ConsumerParts:
    """The parts of a new consumer.

    Args:
        cluster: connections that others use too; None: make some.

    Raises:
        ConfigError: a setting is wrong.
    """
    own = cluster or _cluster(settings)
    positions = Positions(reset_timestamp(settings.auto_offset_reset))
    identities = TopicIdentities(own, positions)
    read, member_wants = read_settings(settings), member_settings(settings)
    decoding = decoding_of(
        settings.check_crcs, settings.key_deserializer, settings.value_deserializer
    )
    news, covered = asyncio.Event(), Covered()
    metrics = GroupConsumerMetrics(lambda: asyncio.get_running_loop().time(), lambda: reader.lags())
    member = GroupMember(own, member_wants, settings.metadata_max_age_ms, metrics, news.set)
    identity = GroupIdentity(settings.group_id, member)
    fetcher = LogFetcher(own, positions, covered, read, identity.committing, metrics, news.set)
    reader = Reader(positions, fetcher, covered, decoding)
    committer = OffsetCommitter(
        own,
        identity.committing,
        reader,
        metrics,
        covered,
        member_wants.ranges_max,
        identities,
    )
    lookup = PositionLookup(
        own,
        positions,
        fetcher,
        covered,
        identity=None if settings.group_id is None else identity.known,
        committed=read.committed,
        on_news=news.set,
    )
    rebalancing = Rebalancing(
        member,
        positions,
        committer,
        reader,
        commits=settings.commits,
        shares=member_wants.shares,
        cooperative=member_wants.cooperative,
        metrics=metrics,
    )
    return ConsumerParts(
        settings=settings,
        cluster=own,
        owns_cluster=cluster is None,
        state=ClosedState(),
        wakeup=WakeupCall(),
        news=news,
        positions=positions,
        decoding=decoding,
        metrics=metrics,
        member=member,
        identity=identity,
        fetcher=fetcher,
        reader=reader,
        committer=committer,
        lookup=lookup,
        rebalancing=rebalancing,
        identities=identities,
    )


def _cluster(settings: CheckedConsumerSettings) -> Cluster:
    return Cluster(
        settings.bootstrap_servers,
        client_id=settings.client_id,
        request_timeout_ms=settings.request_timeout_ms,
        metadata_max_age_ms=settings.metadata_max_age_ms,
        allow_auto_create_topics=settings.allow_auto_create_topics,
        security=settings.security,
        jitter=settings.jitter,
    )
