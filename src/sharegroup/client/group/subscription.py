"""What a consumer reads: topics, whose partitions the group assigns, or partitions of its own
choice.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sharegroup.client.core.committed_offsets import as_partition
from sharegroup.client.core.key_ranges import Assignment, KeyRanges, ranges_given
from sharegroup.client.core.setting_checks import check_topics
from sharegroup.client.errors import IllegalState
from sharegroup.client.group.parts import ConsumerParts
from sharegroup.client.group.rebalancing import RebalanceCallback
from sharegroup.model.errors import ConfigError
from sharegroup.model.ids import TopicPartition


class ConsumerSubscription:
    """See the module.

    Attributes:
        topics, pattern: the subscribed topics; all topics with such a name.

    Raises:
        ConfigError: there are topics without a group, or one cannot be the name of a topic.
    """

    def __init__(self, parts: ConsumerParts, topics: tuple[str, ...]) -> None:
        if topics and parts.settings.group_id is None:
            raise ConfigError("group_id is missing: name the consumer group")
        check_topics(topics)
        self.topics = topics
        self.pattern: str | re.Pattern[str] | None = None
        self._parts = parts

    @property
    def chosen(self) -> bool:
        """Topics are subscribed."""
        return bool(self.topics) or self.pattern is not None

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read now, sorted."""
        return sorted(self._parts.positions.assigned)

    @property
    def key_ranges(self) -> dict[TopicPartition, KeyRanges]:
        """Partition → the key ranges that are read of it; without partitions read whole."""
        positions = self._parts.positions
        found = {where: positions.key_ranges(where) for where in self.assignment}
        return {where: own for where, own in found.items() if own}

    def subscribe(
        self,
        topics: Sequence[str],
        pattern: str | re.Pattern[str] | None,
        on_assigned: RebalanceCallback | None,
        on_revoked: RebalanceCallback | None,
        on_lost: RebalanceCallback | None,
    ) -> None:
        """As ``Consumer.subscribe``."""
        parts = self._parts
        parts.state.check_open()
        check_topics(topics)
        if parts.settings.group_id is None:
            raise IllegalState("without group_id there is no subscription: call assign()")
        if not parts.member.runs and parts.positions.assigned:
            raise IllegalState("partitions were assigned by assign(): call unsubscribe() first")
        if bool(topics) == (pattern is not None):
            raise IllegalState("name topics, or give a pattern; unsubscribe() ends it")
        rebalancing = parts.rebalancing
        rebalancing.on_assigned = on_assigned
        rebalancing.on_revoked, rebalancing.on_lost = on_revoked, on_lost
        self.topics, self.pattern = tuple(topics), pattern
        if parts.member.runs:
            parts.cluster.watch(self.topics)
            parts.member.subscribe(self.topics, pattern)

    def assign(self, partitions: Assignment) -> None:
        """As ``Consumer.assign``."""
        parts = self._parts
        parts.state.check_open()
        if self.chosen:
            raise IllegalState("topics are subscribed: call unsubscribe() first")
        wanted = {as_partition(where): own for where, own in ranges_given(partitions).items()}
        parts.rebalancing.drop(parts.positions.assigned - wanted.keys())
        parts.cluster.watch({where.topic for where in wanted})
        parts.positions.add(sorted(wanted), from_group=parts.settings.group_id is not None)
        for where, own in wanted.items():
            parts.positions.read_ranges(where, own)

    async def join(self) -> None:
        """Begin to join the group, if topics are subscribed."""
        member = self._parts.member
        if self.chosen and not member.runs:
            self._parts.cluster.watch(self.topics)
            await member.choose_protocol()
            member.subscribe(self.topics, self.pattern)
            member.start()

    def clear(self) -> None:
        """Read nothing."""
        self._parts.rebalancing.drop(self._parts.positions.assigned)
        self.topics, self.pattern = (), None
