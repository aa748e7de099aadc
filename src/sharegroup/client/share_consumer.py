"""The share consumer: takes records of a share group, one by one or in batches, and acknowledges
them.

::

    async with ShareConsumer("orders", group_id="billing") as consumer:
        async for record in consumer:
            print(record.value, record.delivery_count)

A record is accepted when the loop asks for the next one. If the loop ends in any other way, the
record in work is released and delivered again, to any member
(:mod:`sharegroup.client.share.loops`).
"""

from __future__ import annotations

import signal
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, Unpack

from sharegroup.client.core.acknowledgements import AckType
from sharegroup.client.core.handed_over import HandedOver
from sharegroup.client.core.record import K, Record, Records, V
from sharegroup.client.core.shown_settings import shows
from sharegroup.client.errors import IllegalState
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.share.calls import share_calls
from sharegroup.client.share.commit_callback import AckCallback
from sharegroup.client.share.loops import ArrowLoop, BatchLoop, RecordLoop, asking_task
from sharegroup.client.share.metrics import Metrics
from sharegroup.client.share.settings import CheckedShareConsumerSettings, ShareConsumerSettings
from sharegroup.client.worker.settings import SIGNALS, WorkerSettings
from sharegroup.model.errors import KafkaError
from sharegroup.model.ids import TopicPartition

if TYPE_CHECKING:
    from sharegroup.client.share.arrow_batches import Answers, ArrowRows
    from sharegroup.client.worker.retry import Backoff
    from sharegroup.client.worker.worker import Worker


class ShareConsumer(Generic[K, V]):
    """A member of a share group (KIP-932). In ``ShareConsumer[K, V]``, K and V are the types that
    the deserializers return.

    Args:
        topics: the subscription; :meth:`subscribe` changes it.
        group_id: the share group.
        cluster: connections to share with other clients; :meth:`close` does not close them. A
            connection answers in order, so waiting fetches of several consumers on one connection
            delay each other.
        settings: all other settings:
            :class:`~sharegroup.client.share.settings.ShareConsumerSettings` explains them.

    Raises:
        ConfigError: a setting is invalid.
        TypeError: there is no setting of a name.
    """

    @shows(CheckedShareConsumerSettings)
    def __init__(
        self,
        *topics: str,
        group_id: str,
        cluster: Cluster | None = None,
        **settings: Unpack[ShareConsumerSettings[K, V]],
    ) -> None:
        self._calls = calls = share_calls(topics, group_id, settings, cluster)
        self._parts, self._life, self._polling = calls.parts, calls.life, calls.polling
        self._decisions, self._commits = calls.decisions, calls.commits
        self._worker: Worker | None = None

    # --- life -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect and join the group; ``async with`` and the first :meth:`poll` do it by
        themselves.

        Raises:
            BootstrapError: no broker could be reached.
            KafkaError: the group refused this member.
        """
        await self._life.start()

    async def close(self, *, timeout_ms: int = 30_000) -> None:
        """Send pending acknowledgements, release all other records, leave the group. A second call
        does nothing. The close takes at most ``timeout_ms`` and at most ``request_timeout_ms``;
        then it is aborted. No task and no connection is left behind.

        If the caller is cancelled, the close has two more seconds; then the cancellation goes on.
        """
        await self._life.close(timeout_ms)

    def __del__(self) -> None:
        life = getattr(self, "_life", None)
        if life is None or not life.unclosed:
            return
        warnings.warn(
            f"a ShareConsumer of group {self._parts.settings.group_id!r} was not closed: write "
            "`async with ShareConsumer(...)`, or await its close()",
            ResourceWarning,
            source=self,
            stacklevel=2,
        )
        life.forsake()

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
        """The subscribed topics."""
        return self._parts.member.topics

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions that the group has given to this consumer now, sorted."""
        return self._life.assignment

    @property
    def member_id(self) -> str:
        """This consumer's name in the group."""
        return self._parts.member.member_id

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        """How long an acquisition lock lasts, to plan renewals; None before the first fetch."""
        return self._parts.member.lock_timeout_ms

    def metrics(self) -> Metrics:
        """Kafka's share consumer metrics, and the metrics of :meth:`run`: (group, name) → value.
        An average without samples is NaN.
        """
        worker = {} if self._worker is None else self._worker.read_metrics()
        return self._parts.member.metrics.read() | worker

    def subscribe(self, *topics: str) -> None:
        """Replace the subscription. Held records keep their locks and can be acknowledged."""
        self._life.subscribe(topics)

    async def unsubscribe(self) -> None:
        """Send pending acknowledgements, release all other records, leave the group.
        :meth:`subscribe` joins again.
        """
        await self._life.unsubscribe()

    # --- receiving --------------------------------------------------------------------------------

    async def poll(self, timeout_ms: int = 1_000) -> Records[K, V]:
        """The next records; empty when there were none within ``timeout_ms``, or the consumer was
        closed meanwhile.

        Records of one partition ascend in offset. In implicit mode a poll accepts the records of
        the previous poll; in explicit mode each of them must have been acknowledged. While locks
        are being renewed, a poll returns only renewed records. Cancelling a poll loses nothing.

        Raises:
            IllegalState: nothing is subscribed; or, in explicit mode, some records are not
                acknowledged (they still can be).
            CorruptRecordBatch: a batch is damaged; the next poll rejects it. Earlier polls have
                returned the records before it.
            RecordDeserializationError: a deserializer failed; the next poll releases the record.
                Earlier polls have returned the records before it.
            Wakeup: :meth:`wakeup` was called.
            KafkaError: the group or the broker refuses for good.
        """
        return await self._polling.poll_records(timeout_ms / 1000)

    def __aiter__(self) -> RecordLoop[K, V]:
        """An endless loop over records. In implicit mode a record is accepted when the loop asks
        for the next one, and released if the loop ends before. Ends when the consumer is closed.
        """
        return RecordLoop(self._polling, self)

    def batches(self, timeout_ms: int = 1_000) -> BatchLoop[K, V]:
        """An endless loop over the results of :meth:`poll`, without the empty ones. In implicit
        mode a batch is accepted when the loop asks for the next one, and released if the loop ends
        before. Ends when the consumer is closed.
        """
        return BatchLoop(self._polling, self, timeout_ms / 1000)

    def arrow_batches(
        self,
        *,
        max_records: int = 50_000,
        include_headers: bool = False,
        idle_timeout_ms: int | None = None,
    ) -> ArrowLoop:
        """An endless loop over Arrow record batches, with the columns of the Spark source: key,
        value, topic, partition, offset, timestamp, [headers,] delivery_count. They are acknowledged
        as the batches of :meth:`batches` are.

        Args:
            max_records: how many records a fetch asks for. A fetch returns whole batches of the
                log, so there may be up to a quarter more rows.
            include_headers: add the column headers.
            idle_timeout_ms: end after this long without records, counted from the first assignment
                of partitions; None: never.

        Raises:
            ConfigError: NumPy or PyArrow is missing, or deserializers are set.
            IllegalState, CorruptRecordBatch, Wakeup, KafkaError: as :meth:`poll`. One consumer
                returns either records or Arrow batches, not both.
        """
        return ArrowLoop(self._polling, self, max_records, include_headers, idle_timeout_ms)

    def wakeup(self) -> None:
        """End the waiting :meth:`poll` or :meth:`commit`, or else the next one, with
        :class:`Wakeup`. Nothing is lost. From another thread, use ``loop.call_soon_threadsafe``, or
        the synchronous consumer, whose ``wakeup`` may be called from any thread. During
        :meth:`run`, this is :meth:`stop`.
        """
        if self._worker is not None:
            self._worker.stop()
        else:
            self._parts.wakeup.ring()

    # --- a handler for each record ----------------------------------------------------------------

    async def run(
        self,
        handler: Callable[[Record[K, V]], Awaitable[object]],
        *,
        concurrency: int = 10,
        prefetch: int | None = None,
        retry: Backoff | None = None,
        dead_letter: str | None = None,
        create_dead_letter: bool = False,
        dead_letter_traceback: bool = False,
        fatal: Sequence[type[Exception]] = (),
        timeout_s: float | None = None,
        drain_s: float = 30.0,
        cancel_when_lost: bool | None = None,
        signals: Sequence[signal.Signals] = SIGNALS,
    ) -> None:
        """Call ``handler`` with each record, up to ``concurrency`` at once, until SIGTERM, SIGINT,
        :meth:`stop` or cancellation. Then close the consumer.

        If the handler returns, the record is accepted. If it raises, the record is released after a
        pause and delivered again, to any member. If it raises in the last attempt, or raises
        :class:`Reject`, the record goes to the dead-letter topic and is rejected. The lock is
        renewed while the handler runs; if it expires all the same, the handler is cancelled. When
        the broker goes away, handlers go on, and their results are kept for records that come back
        to this worker. ``docs/worker.md`` has all cases.

        Args:
            handler: a coroutine function of one :class:`Record`.
            concurrency: how many handlers run at once.
            prefetch: how many more records to hold, waiting for a slot; None: one for each slot.
            retry: the pauses, and the number of failed deliveries after which the worker gives up
                on a record; None: ``Backoff()``.
            dead_letter: the topic for records that the worker gives up on; None: they are only
                rejected and logged. If the group has ``errors.deadletterqueue.topic.name``, the
                broker writes the dead letters, and this may be left out.
            create_dead_letter: create the dead-letter topic if it is missing.
            dead_letter_traceback: the broker's dead letters say the traceback of the exception, not
                only its type and text.
            fatal: exceptions that end the attempts at once, as :class:`Reject` does.
            timeout_s: a handler that takes longer has failed; None: no limit.
            drain_s: how long handlers may continue after the worker is stopped.
            cancel_when_lost: cancel handlers when the broker goes away; None: with order per key.
            signals: signals that stop the worker, if this runs in the main thread. A second signal
                ends it at once.

        Raises:
            ConfigError: an argument is invalid, the dead-letter topic does not exist, or the
                handler is not a coroutine function.
            IllegalState: the consumer is closed, or has polled before.
            BootstrapError, KafkaError: no broker could be reached, or the group or the topic was
                refused with a permanent error.
        """
        settings = WorkerSettings(
            concurrency=concurrency,
            prefetch=prefetch,
            retry=retry,
            dead_letter=dead_letter,
            create_dead_letter=create_dead_letter,
            dead_letter_traceback=dead_letter_traceback,
            fatal=fatal,
            timeout_s=timeout_s,
            drain_s=drain_s,
            cancel_when_lost=cancel_when_lost,
            signals=signals,
        )
        # The module loads the producer, which most consumers do not need.
        from sharegroup.client.worker.worker import Worker

        self._worker = Worker(self._calls, handler, settings)
        await self._worker.run()

    def stop(self) -> None:
        """End :meth:`run`: running handlers may continue for ``drain_s``, all other records are
        released. Call it only on the event loop's thread; the synchronous consumer's ``stop`` may
        be called from any thread.

        Raises:
            IllegalState: :meth:`run` is not running.
        """
        if self._worker is None:
            raise IllegalState("run() was not called, so there is nothing to stop")
        self._worker.stop()

    # --- explicit mode ----------------------------------------------------------------------------

    def accept(self, *records: Record[Any, Any] | ArrowRows) -> None:
        """Explicit mode: the records were processed and are not delivered again. Sent by the next
        :meth:`poll` or :meth:`commit`.

        Args:
            records: records, Arrow batches, or data frames made from Arrow batches that still have
                the columns topic, partition and offset.

        Raises:
            IllegalState: the mode is implicit, or a record's acknowledgement was already sent.
            TypeError, ValueError: an argument is neither a record nor rows that name records.
        """
        self._decisions.decide(records, AckType.ACCEPT)

    def release(
        self,
        *records: Record[Any, Any] | ArrowRows,
        delay_ms: int | None = None,
        reason: str | None = None,
    ) -> None:
        """Explicit mode: the records were not processed; deliver them again, if the delivery count
        allows. Raises as :meth:`accept`.

        Args:
            delay_ms: not before so many milliseconds, whatever happens to this consumer meanwhile;
                None: as the group's ``share.release.backoff.ms`` says; 0: at once. Up to a week.
                Apache Kafka ignores it.
            reason: why, for the dead letter of a record that has reached the delivery limit.
        """
        self._decisions.decide(records, AckType.RELEASE, reason, delay_ms)

    def reject(self, *records: Record[Any, Any] | ArrowRows, reason: str | None = None) -> None:
        """Explicit mode: the records cannot be processed and are not delivered again. Raises as
        :meth:`accept`.

        Args:
            reason: why, for the dead letter: the header ``__dlq.errors.message``. Up to 8,192
                characters are kept. A broker without dead letters, and Apache Kafka, ignore it. An
                exception is a TypeError before anything is acknowledged: write ``str(error)``.
        """
        self._decisions.decide(records, AckType.REJECT, reason)

    def renew(self, *records: Record[Any, Any] | ArrowRows) -> None:
        """Explicit mode: processing goes on; the next :meth:`poll` or :meth:`commit` renews the
        acquisition locks. The poll after that returns the records once more, and they must then be
        acknowledged. Raises as :meth:`accept`. With a broker older than Apache Kafka 4.2, that poll
        or commit raises UnsupportedVersion, and the records are delivered again when their locks
        end.
        """
        self._decisions.decide(records, AckType.RENEW)

    def acknowledge(
        self, record: Record[Any, Any] | ArrowRows, kind: AckType | Answers = AckType.ACCEPT
    ) -> None:
        """Accept, release, reject or renew. A record may be acknowledged again until its
        acknowledgement is sent; the last one wins. Raises as :meth:`accept`; if it raises, nothing
        is acknowledged.

        Args:
            kind: for Arrow rows also one answer per row, in a list or an Arrow, NumPy, Polars or
                pandas column: true (accept) or false (release), or ``accept``, ``release``,
                ``reject``, ``renew``, or their codes. Rows with null stay unacknowledged.
        """
        self._decisions.acknowledge(record, kind)

    def hand_over(
        self,
        *records: Record[Any, Any],
        kind: AckType = AckType.ACCEPT,
        reason: str | None = None,
    ) -> HandedOver:
        """Explicit mode: hand records to a transaction, which accepts or rejects them when it
        commits. Applications call ``acknowledge`` and ``reject`` of the transaction, which call
        this.

        Raises:
            IllegalState: as :meth:`accept`; or the group has order per key.
        """
        return self._decisions.hand_over(records, kind, reason)

    def acknowledge_offset(self, topic: str, partition: int, offset: int, kind: AckType) -> None:
        """As :meth:`acknowledge`, by offset: for a record that could not be read. The error that
        :meth:`poll` raised names its partition and offset.
        """
        self._decisions.decide_offset(TopicPartition(topic, partition), offset, kind)

    # --- sending ----------------------------------------------------------------------------------

    def commit(
        self, *, timeout_ms: int | None = None
    ) -> Coroutine[Any, Any, dict[TopicPartition, KafkaError | None]]:
        """Send pending acknowledgements and await the outcome of each partition: None is success,
        an error means that all acknowledgements of the partition failed. Failures are not raised:
        their records are delivered again. What was sent before and is not answered yet counts, too.

        In implicit mode, all records returned so far are accepted first. In a loop's body, that
        includes the record in work: commit when the work is done. A commit by another task leaves
        out the record in work. After the loop no record is in work: it was released. Cancelling a
        commit loses the outcome, not the acknowledgements.

        Args:
            timeout_ms: an outcome that takes longer is RequestTimedOut; its request goes on, and a
                later commit waits for it, too. None: only the time-out of each request applies.

        Raises:
            Wakeup: :meth:`wakeup` was called.
        """
        return self._commits.commit(timeout_ms, asking_task())

    def commit_async(self) -> None:
        """As :meth:`commit`, without waiting. The callback gets the outcome."""
        self._commits.commit_async(asking_task())

    def set_acknowledgement_commit_callback(self, callback: AckCallback | None) -> None:
        """Replace the callback; None removes it."""
        self._commits.replace_callback(callback)
