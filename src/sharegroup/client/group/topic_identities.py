"""Notices that a topic was deleted and made anew: the offsets of the old topic mean nothing in the
new one, though both have the same name.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from uuid import UUID

from sharegroup.client.core.positions import Positions
from sharegroup.client.network.cluster import Cluster
from sharegroup.model.ids import TopicPartition

log = logging.getLogger("sharegroup.client")


class TopicIdentities:
    """See the module. Nothing is noticed on clusters that give topics no ids."""

    def __init__(self, cluster: Cluster, positions: Positions) -> None:
        self._cluster = cluster
        self._positions = positions
        self._looked = (0, 0)

    def read(self, where: TopicPartition) -> UUID | None:
        """The topic that is read of one of our partitions; None: it is not known, or the partition
        is not ours."""
        return self._positions.topic_id(where)

    def gone(
        self, wheres: Iterable[TopicPartition], topic_ids: Mapping[str, UUID]
    ) -> set[TopicPartition]:
        """The partitions whose topics had these ids, and were made anew since."""
        known = (where for where in wheres if where.topic in topic_ids)
        return {w for w in known if self._now(w) not in (None, topic_ids[w.topic])}

    def _now(self, where: TopicPartition) -> UUID | None:
        """The id of the partition's topic; None: it is not known."""
        now = self._cluster.metadata.id_of(where.topic)
        stale = now is None or self._positions.was_before(now)
        return self.read(where) if stale else now

    def look(self) -> dict[TopicPartition, UUID]:
        """Note which topics the positions belong to. Returns the partitions whose topic was made
        anew, and its new id."""
        metadata, positions = self._cluster.metadata, self._positions
        news = metadata.applied, positions.newest_version
        if news == self._looked:
            return {}
        self._looked = news
        anew = {}
        for where in positions.assigned:
            topic_id = metadata.id_of(where.topic)
            if topic_id is not None and positions.saw_topic(where, topic_id):
                anew[where] = topic_id
        if anew:
            names = ", ".join(sorted({where.topic for where in anew}))
            log.warning("topics were deleted and made anew, and are read as new ones: %s", names)
        return dict(sorted(anew.items()))
