"""The settings of groups, topics and brokers, in a log that all nodes share: each record has all
settings of its group."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Final

from sharegroup.client.network.cluster import Cluster
from sharegroup.model import errors
from sharegroup.model.ids import TopicPartition
from sharegroup.model.store import Configs
from sharegroup.upstream.shared_log import SharedLog
from sharegroup.upstream.state_log import Record, Submitted

logger = logging.getLogger("sharegroup.broker")

GROUP: Final = "group"
TOPIC: Final = "topic"
BROKER: Final = "broker"
CLUSTER: Final = "cluster"
LANE: Final = "settings"


class ClusterSettings:
    """See the module.

    Args:
        changed: called with kind and name of settings that another node has changed.

    Attributes:
        groups: the settings of groups that have some, by id.
        topics: the settings of topics that only the nodes know, by the topic's id.
    """

    def __init__(
        self,
        cluster: Cluster,
        where: TopicPartition,
        wall_ms: Callable[[], int],
        changed: Callable[[str, str], None],
    ) -> None:
        self.groups: dict[str, Configs] = {}
        self.topics: dict[str, Configs] = {}
        self._changed = changed
        self._of: dict[tuple[str, str], Configs] = {}
        self._logged: dict[tuple[str, str], Configs] = {}
        """As the log says, without what is on its way into it."""
        self._log = SharedLog(cluster, where, LANE, wall_ms, self._take)
        self._unsettled: list[Submitted] = []

    async def load(self) -> None:
        """Read all settings, and then whatever is new.

        Raises:
            KafkaError: the cluster cannot be asked.
        """
        async for record in self._log.read_all():
            self._take(record, own=False)
        self._log.follow()

    async def read_to_end(self) -> None:
        """Return when all is read that was there at the call.

        Raises:
            KafkaError: the cluster cannot be asked.
        """
        await self._log.read_to_end()

    def of(self, kind: str, name: str = "") -> Configs:
        """The settings of a broker, by its id, or of all brokers."""
        return self._of.get((kind, name), {})

    def put(self, kind: str, name: str, configs: Configs) -> None:
        """Replace settings here; they are durable when :meth:`settled` has returned."""
        self._set(kind, name, configs)
        value = json.dumps(dict(configs)).encode() if configs else None
        self._unsettled.append(self._log.submit([(_key(kind, name), value)]))

    async def settled(self) -> None:
        """All changes are durable.

        Raises:
            KafkaStorageError: some may be lost; here they are as the log says.
        """
        under_way = [*self._unsettled]
        try:
            for one in under_way:
                await one.durable()
        except errors.KafkaStorageError:
            self._follow_log()
            raise
        finally:
            self._unsettled = [one for one in self._unsettled if one not in under_way]

    def _follow_log(self) -> None:
        for kind, name in [*{**self._of, **self._logged}]:
            if not self._log.is_pending(_key(kind, name)):
                self._change(kind, name, self._logged.get((kind, name), {}))

    async def close(self) -> None:
        """Write what is under way, and read no more."""
        await self._log.close()

    def _take(self, record: Record, own: bool) -> None:
        offset, key, value = record
        try:
            kind, name = map(str, json.loads(key))
            found = {} if value is None else {str(n): str(v) for n, v in json.loads(value).items()}
        except (ValueError, AttributeError, TypeError) as error:
            logger.error("%s: the record at %d is left out: %s", self._log.where, offset, error)
            return
        self._logged[kind, name] = found
        if not own and not self._log.is_pending(key):
            self._change(kind, name, found)

    def _change(self, kind: str, name: str, configs: Configs) -> None:
        if self._of.get((kind, name), {}) != configs:
            self._set(kind, name, configs)
            self._changed(kind, name)

    def _set(self, kind: str, name: str, configs: Configs) -> None:
        named = {GROUP: self.groups, TOPIC: self.topics}.get(kind, {})
        if configs:
            self._of[kind, name] = named[name] = dict(configs)
        else:
            self._of.pop((kind, name), None)
            named.pop(name, None)


def _key(kind: str, name: str) -> bytes:
    return json.dumps([kind, name]).encode()
