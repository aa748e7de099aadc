"""The settings of groups and of brokers, in a topic of the cluster: each change is a record with
all settings of its group."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Final

from sharegroup.model import errors
from sharegroup.model.store import Configs
from sharegroup.upstream.lease import Lease
from sharegroup.upstream.state_log import StateLog, Submitted

logger = logging.getLogger("sharegroup.broker")

GROUP: Final = "group"
TOPIC: Final = "topic"
BROKER: Final = "broker"
CLUSTER: Final = "cluster"
REWRITE_RECORDS: Final = 10_000
"""After so many records more than there are settings, all are written anew."""
RELEASE_S: Final = 2.0
"""How long a broker that stops waits for the cluster. The next one would not wait for longer."""


class ClusterConfigs:
    """See the module.

    Attributes:
        groups: the settings of groups that have some, by id.
        topics: the settings of topics that only the brokers in front of the cluster know, by the
            topic's id.
    """

    def __init__(self, log: StateLog) -> None:
        self.groups: dict[str, Configs] = {}
        self.topics: dict[str, Configs] = {}
        self._of: dict[tuple[str, str], Configs] = {}
        self._log = log
        self._last: Submitted | None = None
        self._rewriting: asyncio.Task[None] | None = None
        self._loading = asyncio.Lock()
        self.lease = Lease(log, self._load_again, self._rewrite_when_long)

    async def load(self) -> None:
        """Become the owner, and read all settings.

        Raises:
            KafkaError: the cluster cannot be asked.
        """
        await self._load()
        self.lease.start()

    async def _load_again(self) -> None:
        """After a write that failed."""
        async with self._loading:
            if self._log.term is None:
                await self._load()

    async def _load(self) -> None:
        found: dict[tuple[str, str], Configs] = {}
        async for offset, key, value in self._log.claim():
            try:
                kind, name = json.loads(key)
                own = (
                    {} if value is None else {str(n): str(v) for n, v in json.loads(value).items()}
                )
            except (ValueError, AttributeError, TypeError) as error:
                logger.error("%s: the record at %d is left out: %s", self._log.where, offset, error)
                continue
            found[str(kind), str(name)] = own
        self._of = {at: own for at, own in found.items() if own}
        self._sort()

    def _sort(self) -> None:
        self.groups = {name: own for (kind, name), own in self._of.items() if kind == GROUP}
        self.topics = {name: own for (kind, name), own in self._of.items() if kind == TOPIC}

    def of(self, kind: str) -> Configs:
        """The settings of the broker, or of all brokers."""
        return self._of.get((kind, ""), {})

    def put(self, kind: str, name: str, configs: Configs) -> None:
        """Replace settings here; they are durable when :meth:`settled` has returned.

        Raises:
            KafkaStorageError: another node has taken them over.
        """
        self._last = self._log.submit([_record(kind, name, configs)])
        if configs:
            self._of[kind, name] = dict(configs)
        else:
            self._of.pop((kind, name), None)
        named = {GROUP: self.groups, TOPIC: self.topics}.get(kind, {})
        named.pop(name, None)
        if configs:
            named[name] = self._of[kind, name]

    async def settled(self) -> None:
        """All changes are durable.

        Raises:
            KafkaStorageError: they may be lost: the settings are read again.
        """
        last = self._last
        if last is None:
            return
        try:
            await last.durable()
        except errors.KafkaStorageError:
            if self._last is last:
                self._last = None
            await self._load_again()
            raise

    def _rewrite_when_long(self) -> None:
        """Write all settings anew if there are many records more than settings: changes, and beats
        of the lease."""
        long = self._log.end - self._log.start > REWRITE_RECORDS + 2 * len(self._of)
        if long and (self._rewriting is None or self._rewriting.done()):
            self._rewriting = asyncio.create_task(self._rewrite(), name="settings written anew")

    async def _rewrite(self) -> None:
        try:
            begin = self._log.submit(())
            records = [_record(kind, name, own) for (kind, name), own in self._of.items()]
            await self._log.submit(records).durable()
            await self._log.delete_before(await begin.durable())
        except errors.KafkaError as error:
            logger.warning("%s could not be made shorter: %s", self._log.where, error)

    async def close(self) -> None:
        """Write what is under way."""
        await self.lease.close()
        if self._rewriting is not None:
            await asyncio.gather(self._rewriting, return_exceptions=True)
        await self._release()
        await self._log.close()

    async def _release(self) -> None:
        """All else that the broker has in the cluster is written: who stands by may begin."""
        if self._log.term is None:
            return
        try:
            async with asyncio.timeout(RELEASE_S):
                await self._log.release().durable()
        except (errors.KafkaError, TimeoutError) as error:
            why = str(error) or "no answer"
            logger.info("the next broker waits for the end of the lease: %s", why)


def _record(kind: str, name: str, configs: Configs) -> tuple[bytes, bytes | None]:
    key = json.dumps([kind, name]).encode()
    return key, json.dumps(dict(configs)).encode() if configs else None
