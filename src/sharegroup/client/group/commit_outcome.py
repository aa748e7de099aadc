"""What has become of the partitions of a commit, over all its attempts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sharegroup.client.admin.offset_requests import TopicIds
from sharegroup.client.group.topic_identities import TopicIdentities
from sharegroup.client.network.cluster import Cluster
from sharegroup.model.errors import KafkaError, RebalanceInProgress, UnknownTopicOrPartition
from sharegroup.model.ids import TopicPartition


class CommitOutcome:
    """See the module.

    Args:
        topic_ids: topic → the id of the topic that the offsets are of.

    Attributes:
        taken: these are committed.
        gone: these were given up, or their topics were made anew. More may come at any time.
        deleted: the topics of these were deleted.
    """

    def __init__(
        self,
        cluster: Cluster,
        identities: TopicIdentities,
        topic_ids: TopicIds,
        gone: set[TopicPartition],
    ) -> None:
        self.taken: set[TopicPartition] = set()
        self.gone = gone
        self.deleted: set[TopicPartition] = set()
        self._cluster = cluster
        self._identities = identities
        self._topic_ids = topic_ids
        self._absent: set[TopicPartition] = set()

    def left(self, wheres: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Those of the partitions that the next attempt is to commit."""
        settled = self.taken | self.gone | self.deleted
        return [where for where in wheres if where not in settled]

    async def look_for_topics(self, refused: Mapping[TopicPartition, KafkaError]) -> None:
        """An attempt was refused in these partitions, because their topics are not known.

        A broker that has just started may not know a topic yet. So a topic counts as deleted when
        two attempts were refused, and newer metadata has said each time that there is none.

        Raises:
            KafkaError: another attempt may help.
        """
        if not refused:
            return
        await self._cluster.refresh()
        self.gone |= self._identities.gone(refused, self._topic_ids)
        absent = {where for where in refused if where.topic in self._cluster.metadata.absent}
        self.deleted |= absent & self._absent
        self._absent = absent
        for where in self.left(refused):
            raise refused[where]

    def check(self, wheres: Iterable[TopicPartition]) -> None:
        """Check, at the end, that all is committed.

        Raises:
            RebalanceInProgress: partitions are gone.
            UnknownTopicOrPartition: topics were deleted.
        """
        missing = sorted(set(wheres) - self.taken)
        if gone := ", ".join(str(where) for where in missing if where not in self.deleted):
            raise RebalanceInProgress(
                "given up before it could be committed, or its topic was deleted and made "
                f"anew: {gone}"
            )
        if missing:
            raise UnknownTopicOrPartition(
                f"not committed, because there is no such topic: {', '.join(map(str, missing))}"
            )
