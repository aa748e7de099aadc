"""The share consumer: records of a share group, one by one or in batches, and what became of them.

::

    async with ShareConsumer("orders", group_id="billing") as consumer:
        async for record in consumer:
            print(record.value, record.delivery_count)

A record is accepted when the loop asks for the next one. Leave the ``async with`` by an exception,
and whatever was not accepted is released and delivered again, to whomever.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Literal, Self

from sharegroup.client.acknowledger import AckOutcomes
from sharegroup.client.admin import Admin
from sharegroup.client.cluster import Cluster
from sharegroup.client.core.acknowledgements import AckType
from sharegroup.client.core.delivery import Delivery
from sharegroup.client.core.holdings import AcknowledgementMode, Decided, Holdings
from sharegroup.client.errors import IllegalState
from sharegroup.client.fetcher import Fetcher, FetchSettings
from sharegroup.client.node_session import Acknowledged
from sharegroup.client.record import Record
from sharegroup.client.share_member import ShareMember
from sharegroup.model.errors import ConfigError, KafkaError, NotLeaderOrFollower, UnsupportedVersion
from sharegroup.model.ids import TopicIdPartition, TopicPartition
from sharegroup.model.offsets import OffsetRange

log = logging.getLogger("sharegroup.client")

AckCallback = Callable[[Mapping[TopicPartition, Sequence[OffsetRange]], KafkaError | None], None]

_ITERATION_FLUSH_S: Final = 1.0
"""While an ``async for`` goes slowly through a batch, what it has accepted is sent this often."""
_YIELD_S: Final = 0.02
"""How long an ``async for`` whose body awaits nothing may keep the event loop from its other
work.
"""
_GIVE_UP_S: Final = 365 * 86_400


class ShareConsumer:
    """A member of a share group (KIP-932).

    Args:
        topics: what to subscribe to; :meth:`subscribe` may change it.
        group_id: the share group.
        auto_offset_reset: where a group that does not exist yet begins: ``earliest``, ``latest`` or
            ``by_duration:PT1H``. It becomes the group's config ``share.auto.offset.reset`` (which
            is ``latest`` when nobody sets it); a group that exists goes on where it is.
        bootstrap_servers: ``host:port,…`` or a list.
        acknowledgement_mode: ``implicit``: the next :meth:`poll`, or going round an ``async for``,
            accepts the records before; ``explicit``: the application calls :meth:`accept`,
            :meth:`release`, :meth:`reject` or :meth:`renew` for every record.
        acquire_mode: ``batch_optimized``: whole record batches, so that a poll may return more than
            ``max_poll_records``, and the next ones are fetched while the application works;
            ``record_limit``: never more, and no prefetch.
        renew_locks: renew the locks of all records held, in the background, for as long as
            ``max_poll_interval_ms`` allows; needs Apache Kafka 4.2 or ours.
        max_poll_interval_ms: the member leaves the group when the application does not poll for so
            long.
        fetch_max_wait_ms: how long a broker may wait for ``fetch_min_bytes``. A :meth:`commit`
            waits behind a fetch.
        check_crcs: check the checksum of each batch.
        acknowledgement_commit_callback: called in :meth:`poll`, :meth:`commit` and :meth:`close`
            with ({partition: offset ranges}, error or None) for acknowledgements that are through.
        cluster: connections to share with others; it is not closed then.
    """

    def __init__(
        self,
        *topics: str,
        group_id: str,
        bootstrap_servers: str | Iterable[str] = "127.0.0.1:9092",
        auto_offset_reset: str | None = None,
        acknowledgement_mode: Literal["implicit", "explicit"] = "implicit",
        acquire_mode: Literal["batch_optimized", "record_limit"] = "batch_optimized",
        renew_locks: bool = False,
        max_poll_records: int = 500,
        max_poll_interval_ms: int = 300_000,
        fetch_min_bytes: int = 1,
        fetch_max_bytes: int = 52_428_800,
        fetch_max_wait_ms: int = 500,
        check_crcs: bool = True,
        client_id: str = "sharegroup",
        client_rack: str | None = None,
        request_timeout_ms: int = 30_000,
        acknowledgement_commit_callback: AckCallback | None = None,
        cluster: Cluster | None = None,
        jitter: random.Random | None = None,
    ) -> None:
        _check_settings(group_id, max_poll_records, acquire_mode)
        self._cluster = cluster or Cluster(
            bootstrap_servers,
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            jitter=jitter,
        )
        self._owns_cluster = cluster is None
        self._group_id = group_id
        self._auto_offset_reset = auto_offset_reset
        self._member = ShareMember(
            self._cluster,
            group_id,
            rack_id=client_rack or None,
            subscribed_topics=topics,
            poll_interval_max_ms=max_poll_interval_ms,
            on_acknowledged=self._note_outcome,
        )
        self._holdings = Holdings(_mode(acknowledgement_mode))
        self._fetcher = Fetcher(
            self._member,
            FetchSettings(
                max_records=max_poll_records,
                max_bytes=fetch_max_bytes,
                min_bytes=fetch_min_bytes,
                max_wait_ms=fetch_max_wait_ms,
                strict=acquire_mode == "record_limit",
                check_crcs=check_crcs,
            ),
        )
        self._renew_locks = renew_locks
        self._max_poll_records = max_poll_records
        self._callback = acknowledgement_commit_callback
        self._in_callback = False
        self._outcomes: deque[Acknowledged] = deque()
        self._names: dict[TopicIdPartition, TopicPartition] = {}
        self._background: set[asyncio.Task[Any]] = set()
        self._lock_keeper: asyncio.Task[None] | None = None
        self._started = False
        self._closed = False
        self._flush_at = 0.0
        self._yield_at = 0.0

    # --- life -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect and join the group; ``async with`` and the first :meth:`poll` do it by
        themselves.

        Raises:
            BootstrapError: no broker could be reached.
            KafkaError: the group refused.
        """
        self._check_usable()
        if self._started:
            return
        self._started = True
        if self._auto_offset_reset is not None:
            admin = Admin(cluster=self._cluster)
            await admin.begin_group_at(self._group_id, self._auto_offset_reset)
        await self._member.start()
        if self._renew_locks:
            self._lock_keeper = asyncio.create_task(self._keep_locks())

    async def close(self, *, timeout_ms: int = 30_000) -> None:
        """Send what is acknowledged, release the rest, leave the group. Nothing happens the
        second time.
        """
        if self._closed:
            return
        self._closed = True
        try:
            if self._started:
                await self._stop_background()
                self._queue(self._holdings.release_all())
                await self._member.close(timeout_ms=timeout_ms)
                self._run_callback()
        finally:
            if self._owns_cluster:
                await self._cluster.close()

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    # --- subscription -----------------------------------------------------------------------------

    @property
    def subscription(self) -> tuple[str, ...]:
        """The topics."""
        return self._member.topics

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions that the group has given to this consumer now, sorted."""
        named = (self._name_of(partition) for partition in self._member.assignment)
        return sorted(named)

    @property
    def member_id(self) -> str:
        """This consumer's name in the group."""
        return self._member.member_id

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        """How long a lock lasts, for whoever schedules renewals; None before the first fetch."""
        return self._member.lock_timeout_ms

    def subscribe(self, *topics: str) -> None:
        """Replace the subscription."""
        self._check_usable()
        self._member.subscribe(topics)

    async def unsubscribe(self) -> None:
        """Release all records and leave the group."""
        self._check_usable()
        await self._stop_background()
        self._queue(self._holdings.release_all())
        await self._member.commit()
        self._member.subscribe(())

    # --- receiving --------------------------------------------------------------------------------

    async def poll(self, timeout_ms: int = 1_000) -> list[Record]:
        """The next records; empty when there were none within ``timeout_ms``.

        Records of one partition ascend in offset. In implicit mode the records of the poll before
        are accepted; in explicit mode each of them must have been acknowledged.

        Raises:
            IllegalState: nothing is subscribed; or unacknowledged records in explicit mode, which
                stay acknowledgeable.
            CorruptRecordBatch: a damaged batch was rejected; what came before it was returned
                before.
            KafkaError: the group or the broker refuses for good.
        """
        await self._begin_poll()
        rest = self._holdings.rest()
        return rest or await self._poll(timeout_ms / 1000)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Record:
        if self._closed:
            raise StopAsyncIteration
        record = self._holdings.advance()
        if record is None:
            return await self._next_batch()
        if self._now() > self._yield_at:
            await self._give_way()
        return record

    async def _next_batch(self) -> Record:
        """The first record of the next batch of an iteration, however long it takes."""
        record = None
        while record is None:
            await self._begin_poll()
            self._holdings.iterate(self._holdings.rest() or await self._poll(_GIVE_UP_S))
            record = self._holdings.advance()
        self._yield_at = self._now() + _YIELD_S
        self._flush_at = self._now() + _ITERATION_FLUSH_S
        return record

    async def _begin_poll(self) -> None:
        self._check_usable()
        if not self._started:
            await self.start()
        if not self._member.topics:
            raise IllegalState("nothing is subscribed: name topics, or call subscribe()")
        self._run_callback()
        self._raise_damage()
        self._queue(self._holdings.settle())
        await self._send_renewals()

    async def _poll(self, wait_s: float) -> list[Record]:
        deadline = self._now() + wait_s
        while True:
            records = self._holdings.next_records(self._max_poll_records, self._now())
            if records:
                if self._holdings.has_buffered or not self._fetcher.fetch_ahead():
                    self._flush_later()
                return records
            remaining = max(0.0, deadline - self._now())
            deliveries = await self._fetcher.fetch(remaining)
            self._queue(self._holdings.buffer(deliveries))
            for delivery in deliveries:
                self._learn_name(delivery)
            if not self._holdings.has_buffered:
                self._raise_damage()
                if remaining <= 0:
                    self._flush_later()
                    return []

    def _raise_damage(self) -> None:
        if self._fetcher.errors:
            raise self._fetcher.errors.popleft()

    def _learn_name(self, delivery: Delivery) -> None:
        if delivery.records:
            self._names[delivery.partition] = delivery.records[0].topic_partition

    # --- acknowledging ----------------------------------------------------------------------------

    def accept(self, record: Record) -> None:
        """Explicit mode: processed; it will not come again. Sent by the next :meth:`poll` or
        :meth:`commit`.

        Raises:
            IllegalState: the mode is implicit, or the record has been acknowledged and sent.
        """
        self.acknowledge(record, AckType.ACCEPT)

    def release(self, record: Record) -> None:
        """Explicit mode: not processed; deliver it again, if its delivery count allows. Raises
        as :meth:`accept`.
        """
        self.acknowledge(record, AckType.RELEASE)

    def reject(self, record: Record) -> None:
        """Explicit mode: it cannot be processed; it will not come again. Raises as
        :meth:`accept`.
        """
        self.acknowledge(record, AckType.REJECT)

    def renew(self, record: Record) -> None:
        """Explicit mode: still at work; its lock begins anew with the next :meth:`poll` or
        :meth:`commit`, and the poll after that returns it once more, to be acknowledged finally.
        Raises as :meth:`accept`.
        """
        self.acknowledge(record, AckType.RENEW)

    def acknowledge(self, record: Record, kind: AckType) -> None:
        """Any of the four. Before it is sent, a record may be acknowledged again: the last word
        counts.
        """
        if self._in_callback:
            raise IllegalState("the acknowledgement callback may not use the consumer")
        self._holdings.decide(record, kind)

    async def commit(self) -> dict[TopicPartition, KafkaError | None]:
        """Send what is acknowledged and await the outcome: per partition None, or why all of its
        failed.

        In implicit mode every record that was given is accepted first, the one in work included.
        """
        self._check_usable()
        if self._holdings.implicit:
            self._holdings.accept_given()
        decided = self._holdings.take_decided()
        self._queue(decided)
        outcomes = await self._send_renewals()
        outcomes.update({one.partition: _locks_gone() for one in decided if one.lost})
        for partition, error in (await self._member.commit()).items():
            outcomes[partition] = outcomes.get(partition) or error
        self._run_callback()
        return {self._name_of(partition): error for partition, error in outcomes.items()}

    def commit_async(self) -> None:
        """As :meth:`commit` without waiting; the outcome goes to the callback."""
        self._check_usable()
        if self._holdings.implicit:
            self._holdings.accept_given()
        self._queue(self._holdings.take_decided())
        self._flush_later()

    def _queue(self, decided: list[Decided]) -> None:
        for one in decided:
            if one.lost:
                self._note_outcome(Acknowledged(one.partition, one.ranges, _locks_gone()))
            else:
                self._member.acknowledge_ranges(one.partition, one.ranges)

    async def _send_renewals(self) -> AckOutcomes:
        renewals = self._holdings.take_renewals()
        if not renewals:
            return {}
        return await self._renew(renewals)

    async def _renew(self, ranges: list[tuple[TopicIdPartition, OffsetRange]]) -> AckOutcomes:
        return await self._member.renew((partition, *offsets) for partition, offsets in ranges)

    async def _keep_locks(self) -> None:
        """Renew all that is held, at a third of the lock's time."""
        while True:
            timeout_ms = self._member.lock_timeout_ms or 3_000
            await asyncio.sleep(timeout_ms / 3000)
            ranges = self._holdings.undecided()
            if not ranges:
                continue
            renewed_at = self._now()
            try:
                await self._renew(ranges)
            except UnsupportedVersion as error:
                log.warning("renew_locks does nothing: %s", error)
                return
            self._holdings.locked_until(renewed_at + timeout_ms / 1000)

    # --- inside -----------------------------------------------------------------------------------

    def _check_usable(self) -> None:
        if self._closed:
            raise IllegalState("the consumer is closed")
        if self._in_callback:
            raise IllegalState("the acknowledgement callback may not use the consumer")

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _name_of(self, partition: TopicIdPartition) -> TopicPartition:
        known = self._names.get(partition)
        if known is not None:
            return known
        name = self._cluster.metadata.name_of(partition.topic_id) or str(partition.topic_id)
        return TopicPartition(name, partition.partition)

    async def _give_way(self) -> None:
        await asyncio.sleep(0)
        now = self._now()
        self._yield_at = now + _YIELD_S
        if now > self._flush_at:
            self._member.polled()
            self._flush_at = now + _ITERATION_FLUSH_S
            self._queue(self._holdings.take_decided())
            self._flush_later()

    def _flush_later(self) -> None:
        """Send what is queued, in the background: the member tells every outcome."""
        if self._member.has_pending_acknowledgements:
            task = asyncio.create_task(self._member.commit())
            self._background.add(task)
            task.add_done_callback(self._background.discard)

    async def _stop_background(self) -> None:
        if self._lock_keeper is not None:
            self._lock_keeper.cancel()
            await asyncio.wait([self._lock_keeper])
        await self._fetcher.stop()
        if self._background:
            await asyncio.wait(self._background)

    def _note_outcome(self, outcome: Acknowledged) -> None:
        if self._callback is not None:
            self._outcomes.append(outcome)

    def _run_callback(self) -> None:
        while self._outcomes and self._callback is not None:
            outcome = self._outcomes.popleft()
            offsets = {self._name_of(outcome.partition): [one.offsets for one in outcome.ranges]}
            self._in_callback = True
            try:
                self._callback(offsets, outcome.error)
            finally:
                self._in_callback = False


def _check_settings(group_id: str, max_poll_records: int, acquire_mode: str) -> None:
    if not group_id:
        raise ConfigError("group_id is empty: name the share group")
    if max_poll_records < 1:
        raise ConfigError(f"max_poll_records is {max_poll_records}: it must be at least 1")
    if acquire_mode not in ("batch_optimized", "record_limit"):
        raise ConfigError(
            f"acquire_mode is {acquire_mode!r}: write 'batch_optimized' or 'record_limit'"
        )


def _mode(text: str) -> AcknowledgementMode:
    try:
        return AcknowledgementMode(text)
    except ValueError:
        raise ConfigError(
            f"acknowledgement_mode is {text!r}: write 'implicit' or 'explicit'"
        ) from None


def _locks_gone() -> KafkaError:
    return NotLeaderOrFollower("the share session was lost, and its locks with it")
