"""The parts of a consumer, plugged together.

No part holds a reference to the consumer: the tasks of the parts run until they are cut, and a
consumer that its application has dropped must be noticed all the same.
"""

from __future__ import annotations

import asyncio
from typing import Any

from sharegroup.client.core.positions import Positions
from sharegroup.client.core.uncommitted_ranges import Covered
from sharegroup.client.group.committer import Committer
from sharegroup.client.group.fetcher import Fetcher
from sharegroup.client.group.identity import Identity
from sharegroup.client.group.member import GroupMember
from sharegroup.client.group.metrics import ConsumerMetrics
from sharegroup.client.group.position_lookup import PositionLookup
from sharegroup.client.group.reader import Reader
from sharegroup.client.group.rebalancing import Rebalancing
from sharegroup.client.group.settings import MemberSettings, ReadSettings
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.records.decode import Decoding


class Parts:
    """See the module.

    Args:
        group_id: None: there is no group.
        commits: records that are done are committed automatically.
    """

    def __init__(
        self,
        cluster: Cluster,
        positions: Positions,
        group_id: str | None,
        *,
        read: ReadSettings,
        member: MemberSettings,
        decoding: Decoding,
        metadata_max_age_ms: int,
        commits: bool,
    ) -> None:
        self.news = asyncio.Event()
        tell, covered = self.news.set, Covered()
        self.metrics = ConsumerMetrics(
            lambda: asyncio.get_running_loop().time(), lambda: self.reader.lags()
        )
        self.member = GroupMember(cluster, member, metadata_max_age_ms, self.metrics, tell)
        self.identity = Identity(group_id, self.member)
        committing = self.identity.committing
        self.fetcher = Fetcher(cluster, positions, covered, read, committing, self.metrics, tell)
        self.reader = Reader(positions, self.fetcher, covered, decoding)
        self.committer = Committer(
            cluster, committing, self.reader, self.metrics, covered, member.ranges_max
        )
        self.lookup = PositionLookup(
            cluster,
            positions,
            self.fetcher,
            covered,
            identity=None if group_id is None else self.identity.known,
            committed=read.committed,
            on_news=tell,
        )
        self.rebalancing = Rebalancing(
            self.member,
            positions,
            self.committer,
            self.reader,
            commits=commits,
            shares=member.shares,
            cooperative=member.cooperative,
            metrics=self.metrics,
        )

    def cut(self) -> list[asyncio.Task[Any]]:
        """Stop all tasks. Returns the cancelled tasks, which are about to end."""
        parts = (self.committer, self.rebalancing, self.lookup, self.fetcher, self.member)
        return [task for part in parts for task in part.cut()]
